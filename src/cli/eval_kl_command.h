// `baton eval kl`.
#pragma once

#include <memory>

#include "cli/command.h"

namespace baton {

std::unique_ptr<Command> MakeEvalKlCommand();

}  // namespace baton
