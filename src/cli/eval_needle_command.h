// `baton eval needle`.
#pragma once

#include <memory>

#include "cli/command.h"

namespace baton {

std::unique_ptr<Command> MakeEvalNeedleCommand();

}  // namespace baton
