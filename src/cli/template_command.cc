#include "cli/template_command.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "text/chat_template.h"

namespace baton {
namespace {

using templates::Value;

// What the command sets itself; a variable of such a name would have no effect.
constexpr std::array<std::string_view, 6> kOwnNames = {
    "messages", "tools", "documents", "bos_token", "eos_token", "add_generation_prompt"};

Result<> CheckName(std::string_view name) {
  if (std::find(kOwnNames.begin(), kOwnNames.end(), name) == kOwnNames.end()) return {};
  return Fail(ErrorCode::kInvalid, "cannot set '" + std::string(name) +
                                       "': it comes from --messages, --tools, --bos, --eos and "
                                       "--no-generation-prompt");
}

Result<Value> ReadJson(const NamedText& named) {
  Result<Value> value = TemplateValueFromJsonText(named.text);
  if (!value) return Fail(value.error().code, named.name + ": " + value.error().message);
  return value;
}

// Fills the inputs from a list of messages or from an object that holds one.
Result<> ReadConversation(const NamedText& named, ChatTemplateInputs& inputs) {
  const Result<Value> json = ReadJson(named);
  if (!json) return Forward(json);
  if (json->is_list_or_tuple()) {
    inputs.messages = *json;
    return {};
  }
  const Value* messages =
      json->is(templates::Kind::kDict) ? json->dict().Find("messages") : nullptr;
  if (messages == nullptr) {
    return Fail(ErrorCode::kInvalid,
                named.name + " must hold a list of messages, or an object with \"messages\"");
  }
  inputs.messages = *messages;
  if (const Value* tools = json->dict().Find("tools"); tools != nullptr) inputs.tools = *tools;
  if (const Value* documents = json->dict().Find("documents"); documents != nullptr) {
    inputs.documents = *documents;
  }
  const Value* extra = json->dict().Find("extra");
  if (extra == nullptr) return {};
  if (!extra->is(templates::Kind::kDict)) {
    return Fail(ErrorCode::kInvalid, named.name + ": \"extra\" must be an object of variables");
  }
  for (const auto& [name, value] : extra->dict().entries()) {
    const Result<> free = CheckName(name.string());
    if (!free) return Fail(free.error().code, named.name + ": \"extra\" " + free.error().message);
    inputs.variables.emplace_back(name.string(), value);
  }
  return {};
}

}  // namespace

Result<TemplateVariable> ParseTemplateVariable(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Fail(ErrorCode::kInvalid, "takes NAME=JSON, not '" + text + "'");
  }
  const std::string name = text.substr(0, equals);
  const Result<> free = CheckName(name);
  if (!free) return Forward(free);
  Result<Value> value = TemplateValueFromJsonText(text.substr(equals + 1));
  if (!value) {
    return Fail(ErrorCode::kInvalid, "takes JSON for '" + name + "': " + value.error().message +
                                         "; a string needs quotes: " + name + "='\"text\"'");
  }
  return TemplateVariable{name, *std::move(value)};
}

Result<std::string> RenderTemplateCommand(const TemplateCommandOptions& options) {
  const Result<ChatTemplate> chat = ChatTemplate::FromSource(options.template_text);
  if (!chat) return Forward(chat);
  ChatTemplateInputs inputs;
  const Result<> read = ReadConversation(options.messages, inputs);
  if (!read) return Forward(read);
  if (options.tools.has_value()) {
    Result<Value> tools = ReadJson(*options.tools);
    if (!tools) return Forward(tools);
    inputs.tools = *std::move(tools);
  }
  inputs.variables.insert(inputs.variables.end(), options.variables.begin(),
                          options.variables.end());
  inputs.now = options.now;
  inputs.add_generation_prompt = options.add_generation_prompt && !options.continue_final_message;
  inputs.continue_final_message = options.continue_final_message;
  inputs.bos_token = options.bos_token;
  inputs.eos_token = options.eos_token;
  return options.adapt_shapes ? chat->RenderAdapted(inputs, TemplateLimits{})
                              : chat->RenderAsGiven(inputs, TemplateLimits{});
}

}  // namespace baton
