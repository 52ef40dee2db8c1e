// The options of one command: declared once, parsed, checked and described from one place.
//
// The only user of CLI11, which splits the command line; values are checked here, so that every
// refusal names the option, the value and what would have been accepted.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/whole_number.h"

namespace CLI {
class App;
}  // namespace CLI

namespace baton {

// Another file that belongs to one that is read.
struct CompanionFile {
  std::string ending;  // of its name, after the name of the file that is read: ".packed"
  // The option that may write it, by its long name; no other may.
  std::string writer = {};
};

// How an option is written and described.
struct OptionText {
  std::string names;  // "-m,--model"; for a positional argument its name: "MODEL"
  std::string value;  // what its value is called: "N"; empty for a flag
  std::string help;   // one sentence or two, without a full stop at the end
  // The value "-" means standard input, which only one option of a command line can read.
  bool dash_is_input = false;
  // Of a file that is written: the option whose file it may replace, by its long name.
  std::string may_replace = {};
  // Of a file that is read.
  std::vector<CompanionFile> companions = {};
};

struct RealRange {
  double min = 0;
  double max = 0;
};

// Takes over one value. Errors: any; the message goes on after the option's name: "takes a whole
// number, not 'x'", ": no such file".
using TakeValue = std::function<Result<>(const std::string& value)>;

// Declares options, parses arguments. What the pointers point to outlives the set. Every value is
// checked here, so that a wrong one is wrong usage whatever the option; an option that takes one
// value and is given two is refused, and so is a file to write that another option names, too.
class OptionSet {
 public:
  // Starts a group of the help text: "Sampling".
  void Group(std::string title);

  // Files without an option's name, up to `max_values` of them. All that follows "--" is of this
  // kind.
  void Positional(OptionText text, size_t max_values, std::vector<std::string>* values);
  void Flag(OptionText text, bool* value);
  // Text in UTF-8; may be empty.
  void Text(OptionText text, std::optional<std::string>* value);
  // The name of a file, of any bytes but not empty.
  void File(OptionText text, std::optional<std::string>* value);
  void Files(OptionText text, std::vector<std::string>* values);  // may be given many times
  // The name of a folder, likewise not empty.
  void Folder(OptionText text, std::optional<std::string>* value);
  // The same of a file that is written.
  void OutputFile(OptionText text, std::optional<std::string>* value);
  // What `take` makes of the value.
  void Parsed(OptionText text, TakeValue take);
  void ParsedEach(OptionText text, TakeValue take);  // may be given many times
  // The same where some values are names of files that are read.
  using NamesFile = bool (*)(const std::string& value);
  void ParsedFile(OptionText text, TakeValue take, NamesFile names_file);
  void Integer(OptionText text, IntegerRange range, std::optional<int64_t>* value);
  void Real(OptionText text, RealRange range, std::optional<double>* value);
  // One word of a list.
  void Choice(OptionText text, std::vector<std::string> choices, std::optional<std::string>* value);

  // An option that other commands have and this one has not, by one of its names: who gives it is
  // told what takes its place here.
  void Elsewhere(std::string name, std::string instead);

  // Reads the arguments of the command. Errors: invalid, with a sentence for the user.
  Result<> Parse(const std::vector<std::string>& arguments);

  // The groups and their options in columns, each line below `columns`.
  std::string Describe(size_t columns) const;

 private:
  enum class Kind { kFlag, kSingle, kRepeated, kPositional };
  enum class FileUse { kNone, kReads, kWrites };
  struct Option {
    Kind kind = Kind::kSingle;
    std::string group;
    OptionText text;
    size_t max_values = 1;
    TakeValue take;
    FileUse file_use = FileUse::kNone;
    NamesFile names_file = nullptr;  // null: every value is one
  };
  struct NamedFile {
    const Option* option;
    std::string path;
  };
  // What one command line has said so far.
  struct Reading {
    std::optional<Error> first_error;
    std::vector<std::string> input_readers;  // options that take standard input
    std::vector<NamedFile> files;
    std::map<const Option*, std::string> given_names;

    // The name to speak of an option by: of its long names the one that was given.
    std::string Name(const Option& option) const;
  };

  void Add(Option option);
  const Option* Find(std::string_view name) const;
  std::vector<std::string> LongNames() const;
  Result<std::vector<std::string>> SplitAtEquals(const std::vector<std::string>& arguments,
                                                 Reading& reading) const;
  static void AddTo(CLI::App& app, const Option& option, Reading& reading);
  static void TakeOne(const Option& option, const std::string& value, Reading& reading);
  static Result<> CheckOutputs(const Reading& reading);
  Result<> CheckElsewhere(const std::string& name) const;
  void TakePositionals(const std::vector<std::string>& values, Reading& reading) const;

  std::string group_ = "Options";
  std::vector<Option> options_;
  std::map<std::string, std::string> elsewhere_;  // by name
};

// A finite decimal number in the range, or nothing.
std::optional<double> ParseReal(std::string_view text, RealRange range);

}  // namespace baton
