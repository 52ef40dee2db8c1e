#include "cli/option_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "cli/near_match.h"

namespace baton {
namespace {

constexpr size_t kHelpColumn = 28;

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

// The name to speak of an option by: its longest.
std::string LongName(const OptionText& text) {
  return SplitNames(text.names).back();
}

Error Refused(const OptionText& text, std::string_view accepted, std::string_view value) {
  return Error{ErrorCode::kInvalid,
               fmt::format("{} takes {}, not '{}'", LongName(text), accepted, value)};
}

std::string RealText(double value) {
  return fmt::format("{}", value);
}

// "--name=" means an empty value; CLI11 would take the next argument for it.
std::vector<std::string> SplitEmptyValues(const std::vector<std::string>& arguments) {
  std::vector<std::string> split;
  for (const std::string& argument : arguments) {
    const bool empty_value = argument.size() > 3 && argument.starts_with("--") &&
                             argument.find('=') == argument.size() - 1;
    if (empty_value) {
      split.push_back(argument.substr(0, argument.size() - 1));
      split.emplace_back();
    } else {
      split.push_back(argument);
    }
  }
  return split;
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
       .set = [values](const std::string& value) -> Result<> {
         values->push_back(value);
         return {};
       }});
}

void OptionSet::Flag(OptionText text, bool* value) {
  Add({.kind = Kind::kFlag,
       .group = {},
       .text = std::move(text),
       .max_values = 0,
       .set = [value](const std::string&) -> Result<> {
         *value = true;
         return {};
       }});
}

void OptionSet::Text(OptionText text, std::optional<std::string>* value) {
  Add({.kind = Kind::kSingle,
       .group = {},
       .text = std::move(text),
       .max_values = 1,
       .set = [value](const std::string& given) -> Result<> {
         *value = given;
         return {};
       }});
}

void OptionSet::Texts(OptionText text, std::vector<std::string>* values) {
  Add({.kind = Kind::kRepeated,
       .group = {},
       .text = std::move(text),
       .max_values = 1,
       .set = [values](const std::string& given) -> Result<> {
         values->push_back(given);
         return {};
       }});
}

void OptionSet::Integer(OptionText text, IntegerRange range, std::optional<int64_t>* value) {
  const auto set = [text, range, value](const std::string& given) -> Result<> {
    const std::optional<int64_t> number = ParseInteger(given, range);
    if (!number.has_value()) {
      const std::string accepted =
          fmt::format("a whole number from {} to {}", range.min, range.max);
      return tl::unexpected<Error>(Refused(text, accepted, given));
    }
    *value = *number;
    return {};
  };
  Add({.kind = Kind::kSingle, .group = {}, .text = text, .max_values = 1, .set = set});
}

void OptionSet::Real(OptionText text, RealRange range, std::optional<double>* value) {
  const auto set = [text, range, value](const std::string& given) -> Result<> {
    const std::optional<double> number = ParseReal(given, range);
    if (!number.has_value()) {
      const std::string accepted =
          fmt::format("a number from {} to {}", RealText(range.min), RealText(range.max));
      return tl::unexpected<Error>(Refused(text, accepted, given));
    }
    *value = *number;
    return {};
  };
  Add({.kind = Kind::kSingle, .group = {}, .text = text, .max_values = 1, .set = set});
}

void OptionSet::Choice(OptionText text, std::vector<std::string> choices,
                       std::optional<std::string>* value) {
  const auto set = [text, choices, value](const std::string& given) -> Result<> {
    if (std::find(choices.begin(), choices.end(), given) == choices.end()) {
      Error error = Refused(text, fmt::format("{}", fmt::join(choices, ", ")), given);
      error.message += DidYouMean(given, choices);
      return tl::unexpected<Error>(std::move(error));
    }
    *value = given;
    return {};
  };
  Add({.kind = Kind::kSingle, .group = {}, .text = text, .max_values = 1, .set = set});
}

Result<> OptionSet::Parse(const std::vector<std::string>& arguments) {
  const auto options_end = std::find(arguments.begin(), arguments.end(), "--");
  std::vector<std::string> extras;
  std::optional<Error> first_error;
  try {
    CLI::App app;
    app.set_help_flag("");
    app.allow_extras();
    for (const Option& option : options_) AddTo(app, option, first_error);
    std::vector<std::string> reversed = SplitEmptyValues({arguments.begin(), options_end});
    std::reverse(reversed.begin(), reversed.end());
    app.parse(std::move(reversed));
    extras = app.remaining();
  } catch (const CLI::ArgumentMismatch& mismatch) {
    // Its text begins with the option's name and a colon.
    const std::string_view words = mismatch.what();
    return Fail(ErrorCode::kInvalid,
                fmt::format("{} needs a value", words.substr(0, words.find(':'))));
  } catch (const CLI::Error& error) {
    return Fail(ErrorCode::kInvalid, error.what());
  }
  for (const std::string& extra : extras) {
    if (extra.size() < 2 || !extra.starts_with('-')) continue;
    const std::string name = extra.substr(0, extra.find('='));
    return Fail(ErrorCode::kInvalid,
                fmt::format("unknown option '{}'{}", name, DidYouMean(name, LongNames())));
  }
  if (first_error.has_value()) return tl::unexpected<Error>(*first_error);
  if (options_end != arguments.end()) {
    extras.insert(extras.end(), options_end + 1, arguments.end());
  }
  return TakePositionals(extras);
}

void OptionSet::AddTo(CLI::App& app, const Option& option, std::optional<Error>& first_error) {
  const auto take = [&option, &first_error](const std::string& value) {
    const Result<> set = option.set(value);
    if (!set && !first_error.has_value()) first_error = set.error();
  };
  switch (option.kind) {
    case Kind::kPositional:  // taken from what CLI11 leaves over
      return;
    case Kind::kFlag:
      app.add_flag_function(option.text.names, [take](int64_t) { take(std::string()); });
      return;
    case Kind::kSingle:
    case Kind::kRepeated: {
      const bool single = option.kind == Kind::kSingle;
      const CLI::callback_t callback = [take, single](const CLI::results_t& values) {
        for (size_t i = single ? values.size() - 1 : 0; i < values.size(); ++i) take(values[i]);
        return true;
      };
      app.add_option(option.text.names, callback)
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      return;
    }
  }
}

Result<> OptionSet::TakePositionals(const std::vector<std::string>& values) const {
  size_t taken = 0;
  for (const Option& option : options_) {
    if (option.kind != Kind::kPositional) continue;
    for (size_t i = 0; i < option.max_values && taken < values.size(); ++i, ++taken) {
      const Result<> set = option.set(values[taken]);
      if (!set) return set;
    }
  }
  if (taken == values.size()) return {};
  return Fail(ErrorCode::kInvalid, fmt::format("unexpected argument '{}'", values[taken]));
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
    described += WrapText(option.text.help, columns - kHelpColumn, kHelpColumn) + "\n";
  }
  return described;
}

std::string WrapText(std::string_view text, size_t columns, size_t indent) {
  std::string wrapped;
  size_t line = 0;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (line > 0 && line + 1 + word.size() > columns) {
      wrapped += "\n" + std::string(indent, ' ');
      line = 0;
    } else if (line > 0) {
      wrapped += ' ';
      ++line;
    }
    wrapped += word;
    line += word.size();
    begin = end + 1;
  }
  return wrapped;
}

std::optional<int64_t> ParseInteger(std::string_view text, IntegerRange range) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (number < range.min || number > range.max) return std::nullopt;
  return number;
}

std::optional<double> ParseReal(std::string_view text, RealRange range) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(number) || number < range.min || number > range.max) return std::nullopt;
  return number;
}

}  // namespace baton
