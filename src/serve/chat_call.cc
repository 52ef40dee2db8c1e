#include "serve/chat_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "serve/json_body.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 5> kRoles = {"system", "developer", "user", "assistant",
                                                    "tool"};

ApiResult<> CheckParts(const Json& parts, const std::string& name) {
  if (parts.empty()) return BadField(name, fmt::format("'{}' has no parts", name));
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part_name = fmt::format("{}[{}]", name, i);
    if (!parts[i].is_object()) {
      return BadField(part_name, fmt::format("'{}' must be an object", part_name));
    }
    const JsonFields part(parts[i], part_name);
    const auto type = part.Text("type");
    if (!type) return ForwardApi(type);
    if (type->value_or("") != "text") {
      return BadField(
          part.NameOf("type"),
          fmt::format("'{}' must be \"text\"; this model reads nothing else", part.NameOf("type")));
    }
    const auto text = part.Text("text");
    if (!text) return ForwardApi(text);
    if (!*text) return BadField(part.NameOf("text"), "a text part without text");
  }
  return {};
}

ApiResult<> CheckMessage(const Json& message, const std::string& name) {
  if (!message.is_object()) {
    return BadField(name,
                    fmt::format("'{}' must be an object, not {}", name, JsonTypeName(message)));
  }
  const JsonFields fields(message, name);
  const auto role = fields.Text("role");
  if (!role) return ForwardApi(role);
  if (std::find(kRoles.begin(), kRoles.end(), role->value_or("")) == kRoles.end()) {
    return BadField(fields.NameOf("role"),
                    fmt::format("'{}' must be system, developer, user, assistant or tool",
                                fields.NameOf("role")));
  }
  if (const Json* calls = fields.Find("tool_calls"); calls != nullptr) {
    if (**role != "assistant" && *calls != Json::array()) {
      return BadField(fields.NameOf("tool_calls"), "only the assistant's messages have tool calls");
    }
    if (auto read = CheckToolCalls(*calls, fields.NameOf("tool_calls")); !read) return read;
  }
  const Json* content = fields.Find("content");
  const std::string content_name = fields.NameOf("content");
  if (content == nullptr) {
    if (**role == "assistant" && fields.Find("tool_calls") != nullptr) return {};
    return BadField(content_name, fmt::format("'{}' is missing or null", content_name));
  }
  if (content->is_string()) return {};
  if (content->is_array()) return CheckParts(*content, content_name);
  return BadField(content_name, fmt::format("'{}' must be a string or a list of parts, not {}",
                                            content_name, JsonTypeName(*content)));
}

ApiResult<> ReadMessages(const JsonFields& fields, ChatCall& call) {
  const Json* messages = fields.Find("messages");
  if (messages == nullptr) return BadField("messages", "'messages' is missing");
  if (!messages->is_array() || messages->empty()) {
    return BadField("messages", "'messages' must be a list with at least one message");
  }
  if (messages->size() > ChatCall::kMaxMessages) {
    return BadField("messages", fmt::format("'messages' has {} entries; the limit is {}",
                                            messages->size(), ChatCall::kMaxMessages));
  }
  for (size_t i = 0; i < messages->size(); ++i) {
    auto checked = CheckMessage((*messages)[i], fmt::format("messages[{}]", i));
    if (!checked) return checked;
  }
  call.messages = *messages;
  for (Json& message : call.messages) {
    // Templates do not know the newer name.
    if (message["role"] == "developer") message["role"] = "system";
  }
  return {};
}

ApiResult<> ReadLogprobs(const JsonFields& fields, ChatCall& call) {
  const auto wanted = fields.Bool("logprobs");
  if (!wanted) return ForwardApi(wanted);
  const auto top = fields.Integer("top_logprobs", {0, CallLimits::kMaxTopLogprobs});
  if (!top) return ForwardApi(top);
  if (*top && !wanted->value_or(false)) {
    return BadField("top_logprobs", "'top_logprobs' goes with 'logprobs': true only");
  }
  if (wanted->value_or(false)) call.fields.sampling.num_top_logprobs = top->value_or(0);
  return {};
}

ApiResult<> ReadModalities(const JsonFields& fields) {
  const Json* modalities = fields.Find("modalities");
  if (modalities == nullptr || *modalities == Json::array({"text"})) return {};
  return BadField("modalities", "the only modality is \"text\"");
}

}  // namespace

ApiResult<ChatCall> ReadChatCall(const Json& body, const CallLimits& limits) {
  ChatCall call;
  auto common = ReadCallFields(body, limits);
  if (!common) return ForwardApi(common);
  call.fields = *std::move(common);
  const JsonFields fields(body);
  if (auto read = ReadMessages(fields, call); !read) return ForwardApi(read);
  if (auto read = ReadLogprobs(fields, call); !read) return ForwardApi(read);
  if (auto read = ReadModalities(fields); !read) return ForwardApi(read);
  auto tools = ReadTools(fields);
  if (!tools) return ForwardApi(tools);
  call.tools = *std::move(tools);
  const auto continues = fields.Bool("continue_final_message");
  if (!continues) return ForwardApi(continues);
  call.continue_final_message = continues->value_or(false);
  const auto generation = fields.Bool("add_generation_prompt");
  if (!generation) return ForwardApi(generation);
  call.add_generation_prompt = generation->value_or(!call.continue_final_message);
  if (call.add_generation_prompt && call.continue_final_message) {
    return BadField("continue_final_message",
                    "'continue_final_message' and 'add_generation_prompt' exclude each other");
  }
  return call;
}

}  // namespace baton
