// The options of one command: declared once, parsed, checked and described from one place.
//
// The only user of CLI11, which splits the command line; values are checked here, so that every
// refusal names the option, the value and what would have been accepted.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}  // namespace CLI

namespace baton {

// How an option is written and described.
struct OptionText {
  std::string names;  // "-m,--model"; for a positional argument its name: "MODEL"
  std::string value;  // what its value is called: "N"; empty for a flag
  std::string help;   // one sentence or two, without a full stop at the end
};

struct IntegerRange {
  int64_t min = 0;
  int64_t max = 0;
};

struct RealRange {
  double min = 0;
  double max = 0;
};

// Declares options, parses arguments. What the pointers point to outlives the set. Of an option
// that takes one value and is given twice, the last counts.
class OptionSet {
 public:
  // Starts a group of the help text: "Sampling".
  void Group(std::string title);

  // Arguments without a name, up to `max_values` of them. All that follows "--" is of this kind.
  void Positional(OptionText text, size_t max_values, std::vector<std::string>* values);
  void Flag(OptionText text, bool* value);
  void Text(OptionText text, std::optional<std::string>* value);
  void Texts(OptionText text, std::vector<std::string>* values);  // may be given many times
  void Integer(OptionText text, IntegerRange range, std::optional<int64_t>* value);
  void Real(OptionText text, RealRange range, std::optional<double>* value);
  // One word of a list.
  void Choice(OptionText text, std::vector<std::string> choices, std::optional<std::string>* value);

  // Reads the arguments of the command. Errors: invalid, with a sentence for the user.
  Result<> Parse(const std::vector<std::string>& arguments);

  // The groups and their options in columns, each line below `columns`.
  std::string Describe(size_t columns) const;

 private:
  enum class Kind { kFlag, kSingle, kRepeated, kPositional };
  struct Option {
    Kind kind = Kind::kSingle;
    std::string group;
    OptionText text;
    size_t max_values = 1;
    // Takes over one value, or says why not: "a whole number from 1 to 1024".
    std::function<Result<>(const std::string& value)> set;
  };

  void Add(Option option);
  std::vector<std::string> LongNames() const;
  static void AddTo(CLI::App& app, const Option& option, std::optional<Error>& first_error);
  Result<> TakePositionals(const std::vector<std::string>& values) const;

  std::string group_ = "Options";
  std::vector<Option> options_;
};

// Wraps words at spaces so that no line is longer than `columns`, each new line indented; a word
// that is longer stands alone.
std::string WrapText(std::string_view text, size_t columns, size_t indent);

// A whole number in the range, or nothing.
std::optional<int64_t> ParseInteger(std::string_view text, IntegerRange range);

// A finite decimal number in the range, or nothing.
std::optional<double> ParseReal(std::string_view text, RealRange range);

}  // namespace baton
