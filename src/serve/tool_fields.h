// The fields of a chat that concern tools.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "serve/api_error.h"
#include "serve/json_body.h"

namespace baton {

// Plain data, checked.
struct ChatTools {
  static constexpr size_t kMaxTools = 128;
  static constexpr size_t kMaxNameBytes = 64;

  nlohmann::ordered_json list = nlohmann::ordered_json::array();  // as the call has it
  std::vector<std::string> names = {};
};

// `tools`, `tool_choice` and `parallel_tool_calls`. Nothing if the model is to call none.
// Errors: 400 with the field's name: a wrong shape, a name that stands twice or is none, a choice
// that would force a call, or forbid a second one: answers are not held to a form.
ApiResult<ChatTools> ReadTools(const JsonFields& fields);

// `tool_calls` of an assistant's message, of this name. Errors: 400: a wrong shape.
ApiResult<> CheckToolCalls(const nlohmann::ordered_json& calls, const std::string& name);

}  // namespace baton
