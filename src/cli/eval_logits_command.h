// `baton eval logits`.
#pragma once

#include <memory>

#include "cli/command.h"

namespace baton {

std::unique_ptr<Command> MakeEvalLogitsCommand();

}  // namespace baton
