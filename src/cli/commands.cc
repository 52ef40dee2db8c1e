#include "cli/command.h"

namespace baton {

std::vector<std::unique_ptr<Command>> MakeCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  return commands;
}

}  // namespace baton
