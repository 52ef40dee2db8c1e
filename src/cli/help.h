// The texts of `--help` and of the list of commands.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/option_set.h"

namespace baton {

// The whole help of one command. Examples keep their lines, which are to be copied. Units of all
// `columns`: of the screen; 0: none. Lines are no longer than 80 on a wider one.
std::string CommandHelp(const CommandText& text, const OptionSet& options, size_t columns);

// The commands of one group: those of "eval".
std::string GroupHelp(const std::vector<std::unique_ptr<Command>>& commands,
                      const std::string& group, size_t columns);

// What `baton` alone prints: what it is, the commands, where to go on.
std::string ProgramHelp(const std::vector<std::unique_ptr<Command>>& commands, size_t columns);

}  // namespace baton
