// `baton bench serve`: many requests at once on one engine.
#pragma once

#include <memory>

#include "cli/command.h"

namespace baton {

std::unique_ptr<Command> MakeBenchServeCommand();

}  // namespace baton
