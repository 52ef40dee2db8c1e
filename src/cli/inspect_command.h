// `baton inspect`.
#pragma once

#include <memory>

#include "cli/command.h"

namespace baton {

std::unique_ptr<Command> MakeInspectCommand();

}  // namespace baton
