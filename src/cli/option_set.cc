#include "cli/option_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/near_match.h"
#include "base/wrapped_text.h"
#include "cli/input.h"
#include "cli/printable.h"
#include "cli/same_file.h"

namespace baton {
namespace {

constexpr size_t kHelpColumn = 28;
// Of a value that is quoted in a message.
constexpr size_t kMaxValueBytes = 60;

std::vector<std::string> SplitNames(const std::string& names) {
  std::vector<std::string> split;
  size_t begin = 0;
  while (begin <= names.size()) {
    const size_t end = std::min(names.find(',', begin), names.size());
    split.push_back(names.substr(begin, end - begin));
    begin = end + 1;
  }
  return split;
}

bool HasName(const OptionText& text, std::string_view name) {
  const std::vector<std::string> names = SplitNames(text.names);
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The name to speak of an option by: the long one that was given, else the first long one.
std::string SpokenName(const OptionText& text, const std::string& given) {
  if (given.starts_with("--")) return given;
  const std::vector<std::string> names = SplitNames(text.names);
  const auto is_long = [](const std::string& name) { return name.starts_with("--"); };
  const auto found = std::find_if(names.begin(), names.end(), is_long);
  return found == names.end() ? names.front() : *found;
}

tl::unexpected<Error> Takes(std::string_view accepted, std::string_view value) {
  return Fail(ErrorCode::kInvalid,
              fmt::format("takes {}, not '{}'", accepted, Printable(value, kMaxValueBytes)));
}

std::string RealText(double value) {
  return fmt::format("{}", value);
}

TakeValue TakeText(std::optional<std::string>* value) {
  return [value](const std::string& given) -> Result<> {
    const Result<std::string> text = RequireUtf8(given, "");
    // The message starts with the name, here the option's.
    if (!text) return Fail(text.error().code, text.error().message.substr(1));
    *value = *text;
    return {};
  };
}

template <typename Keep>
TakeValue TakeFileName(Keep keep, std::string_view kind = "file") {
  return [keep, kind](const std::string& given) -> Result<> {
    if (given.empty()) {
      return Fail(ErrorCode::kInvalid, fmt::format("takes the name of a {}, not ''", kind));
    }
    keep(given);
    return {};
  };
}

}  // namespace

void OptionSet::Group(std::string title) {
  group_ = std::move(title);
}

void OptionSet::Add(Option option) {
  option.group = group_;
  options_.push_back(std::move(option));
}

void OptionSet::Positional(OptionText text, size_t max_values, std::vector<std::string>* values) {
  Add({.kind = Kind::kPositional,
       .group = {},
       .text = std::move(text),
       .max_values = max_values,
       .take = TakeFileName([values](const std::string& given) { values->push_back(given); }),
       .file_use = FileUse::kReads});
}

void OptionSet::Flag(OptionText text, bool* value) {
  const auto take = [value](const std::string&) -> Result<> {
    *value = true;
    return {};
  };
  Add({.kind = Kind::kFlag, .group = {}, .text = std::move(text), .max_values = 0, .take = take});
}

void OptionSet::Parsed(OptionText text, TakeValue take) {
  Add({.kind = Kind::kSingle,
       .group = {},
       .text = std::move(text),
       .max_values = 1,
       .take = std::move(take)});
}

void OptionSet::ParsedEach(OptionText text, TakeValue take) {
  Add({.kind = Kind::kRepeated,
       .group = {},
       .text = std::move(text),
       .max_values = 1,
       .take = std::move(take)});
}

void OptionSet::ParsedFile(OptionText text, TakeValue take, NamesFile names_file) {
  Parsed(std::move(text), std::move(take));
  options_.back().file_use = FileUse::kReads;
  options_.back().names_file = names_file;
}

void OptionSet::Text(OptionText text, std::optional<std::string>* value) {
  Parsed(std::move(text), TakeText(value));
}

void OptionSet::File(OptionText text, std::optional<std::string>* value) {
  Parsed(std::move(text), TakeFileName([value](const std::string& given) { *value = given; }));
  options_.back().file_use = FileUse::kReads;
}

void OptionSet::Folder(OptionText text, std::optional<std::string>* value) {
  Parsed(std::move(text),
         TakeFileName([value](const std::string& given) { *value = given; }, "folder"));
}

void OptionSet::OutputFile(OptionText text, std::optional<std::string>* value) {
  File(std::move(text), value);
  options_.back().file_use = FileUse::kWrites;
}

void OptionSet::Files(OptionText text, std::vector<std::string>* values) {
  ParsedEach(std::move(text),
             TakeFileName([values](const std::string& given) { values->push_back(given); }));
  options_.back().file_use = FileUse::kReads;
}

void OptionSet::Integer(OptionText text, IntegerRange range, std::optional<int64_t>* value) {
  Parsed(std::move(text), [range, value](const std::string& given) -> Result<> {
    *value = WholeIn(given, range);
    if (value->has_value()) return {};
    return Takes(fmt::format("a whole number from {} to {}", range.min, range.max), given);
  });
}

void OptionSet::Real(OptionText text, RealRange range, std::optional<double>* value) {
  Parsed(std::move(text), [range, value](const std::string& given) -> Result<> {
    *value = ParseReal(given, range);
    if (value->has_value()) return {};
    return Takes(fmt::format("a number from {} to {}", RealText(range.min), RealText(range.max)),
                 given);
  });
}

void OptionSet::Choice(OptionText text, std::vector<std::string> choices,
                       std::optional<std::string>* value) {
  Parsed(std::move(text), [choices, value](const std::string& given) -> Result<> {
    if (std::find(choices.begin(), choices.end(), given) == choices.end()) {
      auto refused = Takes(fmt::format("{}", fmt::join(choices, ", ")), given);
      refused.value().message += DidYouMean(given, choices);
      return refused;
    }
    *value = given;
    return {};
  });
}

void OptionSet::Elsewhere(std::string name, std::string instead) {
  elsewhere_[std::move(name)] = std::move(instead);
}

Result<> OptionSet::Parse(const std::vector<std::string>& arguments) {
  const auto options_end = std::find(arguments.begin(), arguments.end(), "--");
  Reading reading;
  Result<std::vector<std::string>> split = SplitAtEquals({arguments.begin(), options_end}, reading);
  if (!split) return Forward(split);
  std::vector<std::string> extras;
  try {
    CLI::App app;
    app.set_help_flag("");
    app.allow_extras();
    for (const Option& option : options_) AddTo(app, option, reading);
    std::reverse(split->begin(), split->end());
    app.parse(std::move(*split));
    extras = app.remaining();
  } catch (const CLI::ArgumentMismatch& mismatch) {
    // Its text begins with the option's name and a colon.
    const std::string words = mismatch.what();
    const std::string name = words.substr(0, words.find(':'));
    const Option* const option = Find(name);
    return Fail(ErrorCode::kInvalid,
                fmt::format("{} needs a value", option == nullptr ? name : reading.Name(*option)));
  } catch (const CLI::Error& error) {
    return Fail(ErrorCode::kInvalid, error.what());
  }
  for (const std::string& extra : extras) {
    if (extra.size() < 2 || !extra.starts_with('-')) continue;
    const std::string name = extra.substr(0, extra.find('='));
    // A short one may have its value attached: "-oFILE".
    const std::string option = extra.starts_with("--") ? name : extra.substr(0, 2);
    if (const auto known = elsewhere_.find(option); known != elsewhere_.end()) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("there is no {} here: {}", option, known->second));
    }
    return Fail(ErrorCode::kInvalid,
                fmt::format("unknown option '{}'{}", name, DidYouMean(name, LongNames())));
  }
  if (options_end != arguments.end()) {
    extras.insert(extras.end(), options_end + 1, arguments.end());
  }
  TakePositionals(extras, reading);
  if (reading.first_error.has_value()) return tl::unexpected<Error>(*reading.first_error);
  if (reading.input_readers.size() > 1) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("standard input can be read once, but '-' is given {}; put one of the "
                            "texts into a file",
                            fmt::join(reading.input_readers, " and ")));
  }
  return CheckOutputs(reading);
}

// What one option writes, no other may read or write, unless that is its purpose.
Result<> OptionSet::CheckOutputs(const Reading& reading) {
  const std::vector<NamedFile>& files = reading.files;
  for (size_t i = 0; i < files.size(); ++i) {
    const Option& writer = *files[i].option;
    if (writer.file_use != FileUse::kWrites) continue;
    for (size_t j = 0; j < files.size(); ++j) {
      const OptionText& other = files[j].option->text;
      if (i == j || HasName(other, writer.text.may_replace)) continue;
      if (IsSameFile(files[i].path, files[j].path)) {
        return Fail(ErrorCode::kInvalid,
                    fmt::format("{} and {} name the same file '{}'; choose another name",
                                reading.Name(writer), reading.Name(*files[j].option),
                                Printable(files[i].path, kMaxValueBytes)));
      }
      for (const CompanionFile& companion : other.companions) {
        if (HasName(writer.text, companion.writer)) continue;
        if (!IsSameFile(files[i].path, files[j].path + companion.ending)) continue;
        return Fail(ErrorCode::kInvalid,
                    fmt::format("{} names '{}', which belongs to {}; choose another name",
                                reading.Name(writer), Printable(files[i].path, kMaxValueBytes),
                                reading.Name(*files[j].option)));
      }
    }
  }
  return {};
}

// Makes "--name=" two arguments, as CLI11 would take the next one for its value, and refuses
// "--flag=value", in which CLI11 looks for a truth value. Notes the names that options are given
// by.
Result<std::vector<std::string>> OptionSet::SplitAtEquals(const std::vector<std::string>& arguments,
                                                          Reading& reading) const {
  std::vector<std::string> split;
  bool is_value = false;
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const Option* option = is_value ? nullptr : Find(name);
    if (option != nullptr) reading.given_names[option] = name;
    if (option == nullptr || equals == std::string::npos) {
      split.push_back(argument);
      is_value = option != nullptr && option->kind != Kind::kFlag;
      continue;
    }
    if (option->kind == Kind::kFlag) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("{} takes no value, not even '{}'", reading.Name(*option),
                              Printable(argument.substr(equals + 1), kMaxValueBytes)));
    }
    split.push_back(argument.substr(0, equals));
    split.push_back(argument.substr(equals + 1));
  }
  return split;
}

void OptionSet::AddTo(CLI::App& app, const Option& option, Reading& reading) {
  switch (option.kind) {
    case Kind::kPositional:  // taken from what CLI11 leaves over
      return;
    case Kind::kFlag:
      app.add_flag_function(option.text.names, [&option, &reading](int64_t) {
        TakeOne(option, std::string(), reading);
      });
      return;
    case Kind::kSingle:
    case Kind::kRepeated: {
      const CLI::callback_t callback = [&option, &reading](const CLI::results_t& values) {
        if (option.kind == Kind::kSingle && values.size() > 1 && !reading.first_error.has_value()) {
          reading.first_error = Error{
              ErrorCode::kInvalid,
              fmt::format("{} is given {} times ('{}', then '{}'); give it once",
                          reading.Name(option), values.size(), Printable(values[0], kMaxValueBytes),
                          Printable(values[1], kMaxValueBytes))};
        }
        for (const std::string& value : values) TakeOne(option, value, reading);
        return true;
      };
      app.add_option(option.text.names, callback)
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      return;
    }
  }
}

void OptionSet::TakeOne(const Option& option, const std::string& value, Reading& reading) {
  if (option.text.dash_is_input && value == "-") {
    reading.input_readers.push_back(option.kind == Kind::kPositional
                                        ? std::string("as an argument")
                                        : "for " + reading.Name(option));
  } else if (option.file_use != FileUse::kNone &&
             (option.names_file == nullptr || option.names_file(value))) {
    reading.files.push_back({&option, value});
  }
  const Result<> taken = option.take(value);
  if (taken || reading.first_error.has_value()) return;
  reading.first_error =
      Error{taken.error().code,
            fmt::format("{}{}{}", reading.Name(option),
                        taken.error().message.starts_with(':') ? "" : " ", taken.error().message)};
}

void OptionSet::TakePositionals(const std::vector<std::string>& values, Reading& reading) const {
  size_t taken = 0;
  for (const Option& option : options_) {
    if (option.kind != Kind::kPositional) continue;
    for (size_t i = 0; i < option.max_values && taken < values.size(); ++i, ++taken) {
      TakeOne(option, values[taken], reading);
    }
  }
  if (taken == values.size() || reading.first_error.has_value()) return;
  reading.first_error =
      Error{ErrorCode::kInvalid,
            fmt::format("unexpected argument '{}'", Printable(values[taken], kMaxValueBytes))};
}

std::string OptionSet::Reading::Name(const Option& option) const {
  const auto given = given_names.find(&option);
  return SpokenName(option.text, given == given_names.end() ? std::string() : given->second);
}

const OptionSet::Option* OptionSet::Find(std::string_view name) const {
  for (const Option& option : options_) {
    if (option.kind == Kind::kPositional) continue;
    if (HasName(option.text, name)) return &option;
  }
  return nullptr;
}

std::vector<std::string> OptionSet::LongNames() const {
  std::vector<std::string> names;
  for (const Option& option : options_) {
    if (option.kind == Kind::kPositional) continue;
    for (std::string& name : SplitNames(option.text.names)) {
      if (name.starts_with("--")) names.push_back(std::move(name));
    }
  }
  return names;
}

std::string OptionSet::Describe(size_t columns) const {
  std::string described;
  std::string group;
  for (const Option& option : options_) {
    if (option.kind == Kind::kPositional && option.text.help.empty()) continue;
    if (option.group != group) {
      group = option.group;
      described += fmt::format("\n{}:\n", group);
    }
    std::string left = "  ";
    const std::vector<std::string> names = SplitNames(option.text.names);
    const bool has_short = names[0].size() == 2 && names[0][0] == '-';
    if (option.kind != Kind::kPositional && !has_short) left += "    ";
    left += fmt::format("{}", fmt::join(names, ", "));
    if (!option.text.value.empty()) left += " " + option.text.value;
    if (left.size() + 2 > kHelpColumn) {
      described += left + "\n" + std::string(kHelpColumn, ' ');
    } else {
      described += left + std::string(kHelpColumn - left.size(), ' ');
    }
    described += WrapWords(option.text.help, {.columns = columns, .indent = kHelpColumn}) + "\n";
  }
  return described;
}

std::optional<double> ParseReal(std::string_view text, RealRange range) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(number) || number < range.min || number > range.max) return std::nullopt;
  return number;
}

}  // namespace baton
