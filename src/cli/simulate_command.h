// `baton simulate`: what the scheduler makes of a load, without a model.
#pragma once

#include <memory>

#include "cli/command.h"

namespace baton {

std::unique_ptr<Command> MakeSimulateCommand();

}  // namespace baton
