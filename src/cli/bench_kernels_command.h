// `baton bench kernels`: each kernel beside the limits of the machine.
#pragma once

#include <memory>

#include "cli/command.h"

namespace baton {

std::unique_ptr<Command> MakeBenchKernelsCommand();

}  // namespace baton
