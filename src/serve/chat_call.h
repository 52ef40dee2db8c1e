// The body of /v1/chat/completions.
#pragma once

#include <nlohmann/json.hpp>

#include "serve/api_error.h"
#include "serve/call_fields.h"
#include "serve/tool_fields.h"

namespace baton {

// Plain data, checked.
struct ChatCall {
  static constexpr size_t kMaxMessages = 100'000;

  CallFields fields = {};
  // A list of objects with `role` and `content`, in the shapes of the API; "developer" is "system".
  nlohmann::ordered_json messages = {};
  ChatTools tools = {};
  bool add_generation_prompt = true;
  bool continue_final_message = false;
};

// Errors: as ReadCallFields; 400: no messages, a role other than system, developer, user,
// assistant and tool, content that is no text (a string, or a list of text parts; null only beside
// tool calls), flags that contradict each other; those of ReadTools and CheckToolCalls.
ApiResult<ChatCall> ReadChatCall(const nlohmann::ordered_json& body, const CallLimits& limits);

}  // namespace baton
