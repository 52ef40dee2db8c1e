// How an OptionSet reads a command line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "base/near_match.h"
#include "cli/option_names.h"
#include "cli/option_set.h"
#include "cli/same_file.h"

namespace baton {

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
    if (Result<> here = CheckElsewhere(option); !here) return here;
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

// Refuses an option that is known to stand elsewhere.
Result<> OptionSet::CheckElsewhere(const std::string& name) const {
  const auto known = elsewhere_.find(name);
  if (known == elsewhere_.end()) return {};
  return Fail(ErrorCode::kInvalid, fmt::format("there is no {} here: {}", name, known->second));
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
                                ShownValue(files[i].path)));
      }
      for (const CompanionFile& companion : other.companions) {
        if (HasName(writer.text, companion.writer)) continue;
        if (!IsSameFile(files[i].path, files[j].path + companion.ending)) continue;
        return Fail(ErrorCode::kInvalid,
                    fmt::format("{} names '{}', which belongs to {}; choose another name",
                                reading.Name(writer), ShownValue(files[i].path),
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
    if (!is_value && option == nullptr) {
      if (Result<> here = CheckElsewhere(name); !here) return Forward(here);
    }
    if (option != nullptr) reading.given_names[option] = name;
    if (option == nullptr || equals == std::string::npos) {
      split.push_back(argument);
      is_value = option != nullptr && option->kind != Kind::kFlag;
      continue;
    }
    if (option->kind == Kind::kFlag) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("{} takes no value, not even '{}'", reading.Name(*option),
                              ShownValue(argument.substr(equals + 1))));
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
          reading.first_error =
              Error{ErrorCode::kInvalid,
                    fmt::format("{} is given {} times ('{}', then '{}'); give it once",
                                reading.Name(option), values.size(), ShownValue(values[0]),
                                ShownValue(values[1]))};
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
  reading.first_error = Error{ErrorCode::kInvalid,
                              fmt::format("unexpected argument '{}'", ShownValue(values[taken]))};
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
    for (std::string& name : NamesOf(option.text)) {
      if (name.starts_with("--")) names.push_back(std::move(name));
    }
  }
  return names;
}

}  // namespace baton
