#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

namespace baton {
namespace {

constexpr size_t kColumns = 80;
constexpr std::string_view kExitCodes =
    "\nExit status:\n"
    "  0 done; 1 failed, with one line on standard error; 2 wrong usage;\n"
    "  130 stopped by Ctrl-C\n";

}  // namespace

std::string CommandHelp(const CommandText& text, const OptionSet& options) {
  std::string help;
  for (const std::string& usage : text.usages) {
    const std::string lead = help.empty() ? "Usage: " : "       ";
    const std::string line = fmt::format("baton {} {}", text.name, usage);
    const size_t indent = lead.size() + 6 + text.name.size() + 1;
    help += lead + WrapText(line, kColumns - lead.size(), indent) + "\n";
  }
  for (const std::string& paragraph : text.description) {
    help += "\n" + WrapText(paragraph, kColumns, 0) + "\n";
  }
  help += options.Describe(kColumns);
  help += text.examples.size() == 1 ? "\nExample:\n" : "\nExamples:\n";
  for (const std::string& example : text.examples) help += "  " + example + "\n";
  help += kExitCodes;
  return help;
}

std::string ProgramHelp(const std::vector<std::unique_ptr<Command>>& commands) {
  std::string help =
      "Usage: baton COMMAND [ARGUMENT]...\n\n"
      "Runs large language models on the CPU: answers questions about long texts, with\n"
      "results that depend on the model, the tokens and the stated policy alone.\n\n"
      "Commands:\n";
  size_t widest = 0;
  for (const auto& command : commands) widest = std::max(widest, command->Text().name.size());
  for (const auto& command : commands) {
    const CommandText text = command->Text();
    help += fmt::format("  {:<{}}  {}\n", text.name, widest, text.summary);
  }
  help +=
      "\n'baton COMMAND --help' describes a command with its options and an example;\n"
      "'baton --version' prints the version.\n";
  return help;
}

}  // namespace baton
