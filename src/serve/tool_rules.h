// What tools a chat may call, and how its model writes calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

// How a model writes calls. Its template says so.
enum class ToolFormat : std::uint8_t {
  kTagged,   // <tool_call>{"name": N, "arguments": {...}}</tool_call>, each call in tags of its own
  kBare,     // {"name": N, "parameters": {...}}, the whole answer; several between semicolons
  kBracket,  // [TOOL_CALLS][{"name": N, "arguments": {...}}, ...], to the end of the answer
};

// The format that a template teaches; nothing if it is none of these.
std::optional<ToolFormat> ToolFormatOf(std::string_view template_source);

// Plain data.
struct ToolRules {
  ToolFormat format = ToolFormat::kTagged;
  std::vector<std::string> names = {};  // of the tools
};

// A call that the model made.
struct ToolCall {
  std::string name;
  std::string arguments;  // a JSON object, as text

  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

}  // namespace baton
