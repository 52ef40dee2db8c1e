#include "cli/option_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/near_match.h"
#include "base/wrapped_text.h"
#include "cli/input.h"
#include "cli/option_names.h"

namespace baton {
namespace {

constexpr size_t kHelpColumn = 28;

tl::unexpected<Error> Takes(std::string_view accepted, std::string_view value) {
  return Fail(ErrorCode::kInvalid, fmt::format("takes {}, not '{}'", accepted, ShownValue(value)));
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

std::string OptionSet::Describe(size_t columns) const {
  std::string described;
  std::string group;
  for (const Option& option : options_) {
    if (option.kind == Kind::kPositional && option.text.help.empty()) continue;
    if (option.group != group) {
      group = option.group;
      described += "\n" + WrapWords(group + ":", {.columns = columns, .indent = 0}) + "\n";
    }
    std::string left = "  ";
    const std::vector<std::string> names = NamesOf(option.text);
    const bool has_short = names[0].size() == 2 && names[0][0] == '-';
    if (option.kind != Kind::kPositional && !has_short) left += "    ";
    left += fmt::format("{}", fmt::join(names, ", "));
    if (!option.text.value.empty()) left += " " + option.text.value;
    described += TwoColumns(left, option.text.help, {.columns = columns, .indent = kHelpColumn});
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
