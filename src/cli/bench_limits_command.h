// `baton bench limits`: what this machine can do at most.
#pragma once

#include <memory>

#include "cli/command.h"

namespace baton {

std::unique_ptr<Command> MakeBenchLimitsCommand();

}  // namespace baton
