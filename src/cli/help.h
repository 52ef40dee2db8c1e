// The texts of `--help` and of the list of commands.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/option_set.h"

namespace baton {

// The whole help of one command.
std::string CommandHelp(const CommandText& text, const OptionSet& options);

// The commands of one group: those of "eval".
std::string GroupHelp(const std::vector<std::unique_ptr<Command>>& commands,
                      const std::string& group);

// What `baton` alone prints: what it is, the commands, where to go on.
std::string ProgramHelp(const std::vector<std::unique_ptr<Command>>& commands);

}  // namespace baton
