// Tells tool calls from text while an answer arrives.
//
// Life of a reader:
//  1. text: what cannot be the beginning of a call is passed on; what can is held.
//  2. call: after its beginning everything is held until the call is complete. A valid one (JSON
//     with the name of a known tool and an object of arguments) is passed on as a call, anything
//     else as the text it is.
//  3. rest: a form of calls that is the whole answer was not met; all is text.
// Spaces and ends of lines around a call belong to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "serve/tool_rules.h"

namespace baton {

// What became certain. The texts of all pieces join to the answer's text, their calls to its calls.
struct ToolPiece {
  std::string text = {};
  std::vector<ToolCall> calls = {};
};

// One answer. It does not matter how the text is cut. Threads: one at a time.
class ToolCallReader {
 public:
  // Requires: `rules` outlives it.
  explicit ToolCallReader(const ToolRules& rules) : rules_(&rules) {}

  // Takes the next text; returns what became certain.
  ToolPiece Push(std::string_view text);
  // Ends the answer: what was held.
  ToolPiece Finish();

  // Calls so far.
  int64_t num_calls() const { return num_calls_; }

 private:
  enum class State : std::uint8_t { kText, kCall, kRest };

  bool MayBegin(std::string_view text) const;
  bool HasBegun() const;
  void PushText(char c, ToolPiece& piece);
  void PushCall(char c, ToolPiece& piece);
  bool EndsJson(char c);
  void EndCall(std::string_view json, ToolPiece& piece);
  bool TakeCalls(std::string_view json, ToolPiece& piece);
  void GiveText(std::string_view text, ToolPiece& piece);

  const ToolRules* rules_;
  State state_ = State::kText;
  std::string held_;       // of undecided text, or of a call with what is before it
  size_t body_begin_ = 0;  // of the call's JSON, in held_
  // Where the JSON of a call is: how deep, and whether in a string.
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
  bool after_call_ = false;  // and nothing but spaces since
  int64_t num_calls_ = 0;
};

}  // namespace baton
