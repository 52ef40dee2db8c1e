// `baton pack`: saves a model's weights as the kernels read them.
#pragma once

#include <memory>

#include "cli/command.h"

namespace baton {

std::unique_ptr<Command> MakePackCommand();

}  // namespace baton
