// `baton eval density`.
#pragma once

#include <memory>

#include "cli/command.h"

namespace baton {

std::unique_ptr<Command> MakeEvalDensityCommand();

}  // namespace baton
