// `baton template`: its options and help. The work is in template_command.h.
#pragma once

#include <memory>

#include "cli/command.h"

namespace baton {

std::unique_ptr<Command> MakeTemplateCommand();

}  // namespace baton
