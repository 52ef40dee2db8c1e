// One command of the program: its words, its options, its work.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/console.h"
#include "cli/option_set.h"

namespace baton {

// What `--help` says besides the options.
struct CommandText {
  std::string name;                      // "eval logits"
  std::string summary;                   // for the list of commands, a few words
  std::vector<std::string> usages;       // what follows the name: "MODEL [-f FILE]... [-p TEXT]"
  std::vector<std::string> description;  // paragraphs
  bool ends_by_ctrl_c = false;           // which is how it is meant to end
  std::vector<std::string> examples;     // whole command lines
};

// A command lives for one call: Declare, then Check, CheckInput, then Run.
class Command {
 public:
  virtual ~Command() = default;

  virtual CommandText Text() const = 0;

  // Binds the options to the command's own fields.
  virtual void Declare(OptionSet& options) = 0;

  // Whether the options make sense together. Errors: invalid; the exit code is that of usage.
  virtual Result<> Check() = 0;

  // Whether standard input offers what the command line left out. Errors: invalid, as of Check.
  virtual Result<> CheckInput(const Input&) { return {}; }

  // Does the work. Errors: any; cancelled means Ctrl-C.
  virtual Result<> Run(Console& console) = 0;
};

// The commands in the order of the help text.
std::vector<std::unique_ptr<Command>> MakeCommands();

}  // namespace baton
