#include "cli/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "base/near_match.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/help.h"
#include "cli/printable.h"

namespace baton {
namespace {

using Commands = std::vector<std::unique_ptr<Command>>;

// Messages quote names and texts from files, of any length and with any bytes.
constexpr size_t kMaxComplaintBytes = 1000;

// One line: a message of several would break scripts that read the last one.
std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

void Complain(Console& console, std::string_view who, const std::string& message) {
  console.status.Clear();
  // Where standard error takes no more, the exit code still speaks.
  (void)console.err.Write(
      fmt::format("{}: {}\n", who, PrintableEnds(OneLine(message), kMaxComplaintBytes)));
}

int UsageError(Console& console, const std::string& who, const std::string& message) {
  Complain(console, who, message);
  (void)console.err.Write(fmt::format("Try '{} --help'.\n", who));
  return kExitUsage;
}

int Print(Console& console, std::string_view text) {
  const Result<> written = console.out.Write(text);
  if (written) return kExitOk;
  if (!console.out.reader_is_gone()) Complain(console, "baton", written.error().message);
  return kExitFailed;
}

// The command whose name the first arguments spell, and how many of them that took.
struct Found {
  Command* command = nullptr;
  size_t num_words = 0;
};

Found FindCommand(const Commands& commands, const std::vector<std::string>& arguments) {
  for (const auto& command : commands) {
    const std::string name = command->Text().name;
    if (!arguments.empty() && arguments[0] == name) return {command.get(), 1};
    if (arguments.size() > 1 && arguments[0] + " " + arguments[1] == name) {
      return {command.get(), 2};
    }
  }
  return {};
}

bool IsGroup(const Commands& commands, const std::string& word) {
  return std::any_of(commands.begin(), commands.end(), [&](const auto& command) {
    return command->Text().name.starts_with(word + " ");
  });
}

// What other programs call a command, and its name here.
struct ForeignName {
  std::string_view foreign;
  std::string_view name;
};
constexpr ForeignName kForeignNames[] = {
    {"generate", "run"},      {"complete", "run"},       {"completion", "run"},
    {"ask", "run"},           {"prompt", "run"},         {"infer", "run"},
    {"cli", "chat"},          {"talk", "chat"},          {"interactive", "chat"},
    {"api", "serve"},         {"start", "serve"},        {"info", "inspect"},
    {"show", "inspect"},      {"describe", "inspect"},   {"encode", "tokenize"},
    {"decode", "detokenize"}, {"ppl", "eval perplexity"}};

// `names`: of the commands.
std::string CommandHint(const std::string& word, std::vector<std::string> names) {
  for (const ForeignName& row : kForeignNames) {
    if (row.foreign == word) return fmt::format("; did you mean '{}'?", row.name);
  }
  const size_t num_commands = names.size();
  for (size_t i = 0; i < num_commands; ++i) {
    const size_t blank = names[i].find(' ');
    if (blank != std::string::npos) names.push_back(names[i].substr(0, blank));
  }
  return DidYouMean(word, names);
}

int UnknownCommand(Console& console, const Commands& commands,
                   const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (const auto& command : commands) names.push_back(command->Text().name);
  if (IsGroup(commands, arguments[0])) {
    std::vector<std::string> inner;
    for (const std::string& name : names) {
      if (name.starts_with(arguments[0] + " "))
        inner.push_back(name.substr(arguments[0].size() + 1));
    }
    std::string list;
    for (const std::string& name : inner) list += (list.empty() ? "" : ", ") + name;
    if (arguments.size() == 1) {
      return UsageError(console, "baton", fmt::format("'{}' needs one of: {}", arguments[0], list));
    }
    return UsageError(console, "baton",
                      fmt::format("'{}' has no '{}', only: {}{}", arguments[0], arguments[1], list,
                                  DidYouMean(arguments[1], inner)));
  }
  if (arguments[0].starts_with('-')) {
    return UsageError(console, "baton",
                      fmt::format("unknown option '{}' before the command", arguments[0]));
  }
  return UsageError(console, "baton",
                    fmt::format("unknown command '{}'{}", arguments[0],
                                CommandHint(arguments[0], std::move(names))));
}

int ExitCodeOf(const Error& error, Console& console, const std::string& who) {
  if (console.out.reader_is_gone()) return kExitFailed;
  if (error.code == ErrorCode::kCancelled) return kExitInterrupted;
  Complain(console, who, error.message);
  return kExitFailed;
}

int RunCommand(Command& command, const std::vector<std::string>& arguments, Console& console) {
  const std::string who = "baton " + command.Text().name;
  OptionSet options;
  command.Declare(options);
  bool help = false;
  options.Group("Other");
  options.Flag({.names = "-h,--help", .value = "", .help = "Print this help"}, &help);
  // Asked for help, nobody wants to hear what else was wrong.
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  const bool asked = std::any_of(arguments.begin(), end, [](const std::string& argument) {
    return argument == "--help" || argument == "-h";
  });
  const Result<> parsed = options.Parse(arguments);
  if (help || (!parsed && asked))
    return Print(console, CommandHelp(command.Text(), options, console.answer_columns));
  if (!parsed) return UsageError(console, who, parsed.error().message);
  Result<> checked = command.Check();
  if (checked) checked = command.CheckInput(console.in);
  if (!checked) return UsageError(console, who, checked.error().message);
  const Result<> done = command.Run(console);
  console.status.Clear();
  if (!done) return ExitCodeOf(done.error(), console, who);
  return kExitOk;
}

int Dispatch(std::vector<std::string> arguments, Console& console) {
  const Commands commands = MakeCommands();
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" ||
      (arguments[0] == "help" && arguments.size() == 1)) {
    return Print(console, ProgramHelp(commands, console.answer_columns));
  }
  if (arguments[0] == "--version" || arguments[0] == "-V" || arguments[0] == "version") {
    return Print(console, "baton " BATON_VERSION "\n");
  }
  if (arguments[0] == "help") {
    arguments.erase(arguments.begin());
    arguments.emplace_back("--help");
  }
  const bool group_help = IsGroup(commands, arguments[0]) && arguments.size() == 2 &&
                          (arguments[1] == "--help" || arguments[1] == "-h");
  if (group_help) {
    return Print(console, GroupHelp(commands, arguments[0], console.answer_columns));
  }
  const Found found = FindCommand(commands, arguments);
  if (found.command == nullptr) return UnknownCommand(console, commands, arguments);
  arguments.erase(arguments.begin(), arguments.begin() + static_cast<ptrdiff_t>(found.num_words));
  return RunCommand(*found.command, arguments, console);
}

}  // namespace

int RunProgram(const std::vector<std::string>& arguments, Console& console) {
  try {
    return Dispatch(arguments, console);
  } catch (const std::bad_alloc&) {
    Complain(console, "baton",
             "out of memory; end other programs, or take a smaller model, --ctx or --chunk");
  } catch (const std::exception& error) {
    Complain(console, "baton", fmt::format("unexpected failure: {}", error.what()));
  }
  return kExitFailed;
}

}  // namespace baton
