// `baton eval perplexity`.
#pragma once

#include <memory>

#include "cli/command.h"

namespace baton {

std::unique_ptr<Command> MakeEvalPerplexityCommand();

}  // namespace baton
