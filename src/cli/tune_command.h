// `baton tune`.
#pragma once

#include <memory>

#include "cli/command.h"

namespace baton {

std::unique_ptr<Command> MakeTuneCommand();

}  // namespace baton
