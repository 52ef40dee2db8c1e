// `baton bench model`: prefill and decode of a model beside the limits of the machine.
#pragma once

#include <memory>

#include "cli/command.h"

namespace baton {

std::unique_ptr<Command> MakeBenchModelCommand();

}  // namespace baton
