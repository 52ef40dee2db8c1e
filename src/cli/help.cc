#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "base/wrapped_text.h"

namespace baton {
namespace {

// Each begins a line.
constexpr std::string_view kExitCodes[] = {
    "0 done; 1 failed, with one line on standard error; 2 wrong usage;", "130 stopped by Ctrl-C"};
constexpr std::string_view kExitCodesOfServer[] = {
    "0 done, by Ctrl-C or SIGTERM, too; 1 failed, with one line on standard error;",
    "2 wrong usage"};

size_t HelpColumns(size_t screen_columns) {
  return screen_columns == 0 ? kPipeColumns : std::min(screen_columns, kPipeColumns);
}

std::string Paragraph(std::string_view text, size_t columns) {
  return WrapWords(text, {.columns = columns, .indent = 0}) + "\n";
}

// Names and summaries in two columns.
std::string CommandList(const std::vector<std::unique_ptr<Command>>& commands,
                        const std::function<bool(const CommandText&)>& is_listed, size_t columns) {
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
    lines += TwoColumns("  " + text.name, text.summary, {.columns = columns, .indent = widest + 4});
  }
  return lines;
}

// "Usage: baton run MODEL ...", of more than one usage the others below the first.
std::string UsageLines(const CommandText& text, size_t columns) {
  constexpr std::string_view kLead = "Usage: ";
  constexpr size_t kNarrowIndent = kLead.size() + 2;
  const std::string call = fmt::format("baton {} ", text.name);
  const size_t indent = kLead.size() + call.size();
  std::string lines;
  for (const std::string& usage : text.usages) {
    lines += lines.empty() ? std::string(kLead) : std::string(kLead.size(), ' ');
    lines += HasRoomBeside(indent, columns)
                 ? call + WrapWords(usage, {.columns = columns, .indent = indent})
                 : WrapWords(call + usage, {.columns = columns, .indent = kNarrowIndent});
    lines += "\n";
  }
  return lines;
}

}  // namespace

std::string CommandHelp(const CommandText& text, const OptionSet& options, size_t screen_columns) {
  const size_t columns = HelpColumns(screen_columns);
  std::string help = UsageLines(text, columns);
  for (const std::string& paragraph : text.description) {
    help += "\n" + Paragraph(paragraph, columns);
  }
  help += options.Describe(columns);
  help += text.examples.size() == 1 ? "\nExample:\n" : "\nExamples:\n";
  for (const std::string& example : text.examples) help += "  " + example + "\n";
  help += "\nExit status:\n";
  using Lines = std::span<const std::string_view>;
  const Lines codes = text.ends_by_ctrl_c ? Lines(kExitCodesOfServer) : Lines(kExitCodes);
  for (const std::string_view line : codes) {
    help += "  " + WrapWords(line, {.columns = columns, .indent = 2}) + "\n";
  }
  return help;
}

std::string GroupHelp(const std::vector<std::unique_ptr<Command>>& commands,
                      const std::string& group, size_t screen_columns) {
  const size_t columns = HelpColumns(screen_columns);
  const auto is_member = [&](const CommandText& text) {
    return text.name.starts_with(group + " ");
  };
  return Paragraph(fmt::format("Usage: baton {} COMMAND [ARGUMENT]...", group), columns) +
         "\nCommands:\n" + CommandList(commands, is_member, columns) + "\n" +
         Paragraph(
             fmt::format("'baton {} COMMAND --help' describes a command with its options and an "
                         "example.",
                         group),
             columns);
}

std::string ProgramHelp(const std::vector<std::unique_ptr<Command>>& commands,
                        size_t screen_columns) {
  const size_t columns = HelpColumns(screen_columns);
  const auto all = [](const CommandText&) { return true; };
  return Paragraph("Usage: baton COMMAND [ARGUMENT]...", columns) + "\n" +
         Paragraph(
             "Runs large language models on the CPU: answers questions about long texts, with "
             "results that depend on the model, the tokens and the stated policy alone.",
             columns) +
         "\nCommands:\n" + CommandList(commands, all, columns) + "\n" +
         Paragraph(
             "'baton COMMAND --help' describes a command with its options and an example; "
             "'baton --version' prints the version.",
             columns);
}

}  // namespace baton
