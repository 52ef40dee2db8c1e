#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/wrapped_text.h"

namespace baton {
namespace {

constexpr size_t kColumns = 80;
constexpr std::string_view kExitCodes =
    "\nExit status:\n"
    "  0 done; 1 failed, with one line on standard error; 2 wrong usage;\n"
    "  130 stopped by Ctrl-C\n";
constexpr std::string_view kExitCodesOfServer =
    "\nExit status:\n"
    "  0 done, by Ctrl-C or SIGTERM, too; 1 failed, with one line on standard error;\n"
    "  2 wrong usage\n";

// Names and summaries in two columns.
std::string CommandList(const std::vector<std::unique_ptr<Command>>& commands,
                        const std::function<bool(const CommandText&)>& is_listed) {
  std::vector<CommandText> listed;
  size_t widest = 0;
  for (const auto& command : commands) {
    CommandText text = command->Text();
    if (!is_listed(text)) continue;
    widest = std::max(widest, text.name.size());
    listed.push_back(std::move(text));
  }
  std::string lines;
  for (const CommandText& text : listed) {
    lines += fmt::format("  {:<{}}  {}\n", text.name, widest,
                         WrapWords(text.summary, {.columns = kColumns, .indent = widest + 4}));
  }
  return lines;
}

}  // namespace

std::string CommandHelp(const CommandText& text, const OptionSet& options) {
  std::string help;
  for (const std::string& usage : text.usages) {
    const std::string lead = help.empty() ? "Usage: " : "       ";
    const std::string before = fmt::format("{}baton {} ", lead, text.name);
    help += before + WrapWords(usage, {.columns = kColumns, .indent = before.size()}) + "\n";
  }
  for (const std::string& paragraph : text.description) {
    help += "\n" + WrapWords(paragraph, {.columns = kColumns, .indent = 0}) + "\n";
  }
  help += options.Describe(kColumns);
  help += text.examples.size() == 1 ? "\nExample:\n" : "\nExamples:\n";
  for (const std::string& example : text.examples) help += "  " + example + "\n";
  help += text.ends_by_ctrl_c ? kExitCodesOfServer : kExitCodes;
  return help;
}

std::string GroupHelp(const std::vector<std::unique_ptr<Command>>& commands,
                      const std::string& group) {
  const auto is_member = [&](const CommandText& text) {
    return text.name.starts_with(group + " ");
  };
  return fmt::format(
      "Usage: baton {} COMMAND [ARGUMENT]...\n\nCommands:\n{}\n"
      "'baton {} COMMAND --help' describes a command with its options and an "
      "example.\n",
      group, CommandList(commands, is_member), group);
}

std::string ProgramHelp(const std::vector<std::unique_ptr<Command>>& commands) {
  const auto all = [](const CommandText&) { return true; };
  return "Usage: baton COMMAND [ARGUMENT]...\n\n"
         "Runs large language models on the CPU: answers questions about long texts, with\n"
         "results that depend on the model, the tokens and the stated policy alone.\n\n"
         "Commands:\n" +
         CommandList(commands, all) +
         "\n'baton COMMAND --help' describes a command with its options and an example;\n"
         "'baton --version' prints the version.\n";
}

}  // namespace baton
