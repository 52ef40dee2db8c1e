#include "cli/command.h"
#include "cli/detokenize_command.h"
#include "cli/inspect_command.h"
#include "cli/tokenize_command.h"

namespace baton {

std::vector<std::unique_ptr<Command>> MakeCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(MakeInspectCommand());
  commands.push_back(MakeTokenizeCommand());
  commands.push_back(MakeDetokenizeCommand());
  return commands;
}

}  // namespace baton
