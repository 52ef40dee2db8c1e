#include "cli/template_command.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "text/chat_template.h"

namespace baton {
namespace {

using templates::Value;

// Far beyond any conversation. Units: bytes.
constexpr std::size_t kMaxFileBytes = std::size_t{64} << 20;

Result<std::string> ReadWholeFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return Fail(ErrorCode::kInvalid, path + " is a directory, not a file");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInternal,
                "cannot open " + path + ": " + std::strerror(errno));
  std::string text;
  std::string chunk(1U << 16, '\0');
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    text.append(chunk, 0, static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMaxFileBytes)
      return Fail(ErrorCode::kExhausted,
                  path + " is larger than " + std::to_string(kMaxFileBytes) + " bytes");
  }
  if (file.bad()) return Fail(ErrorCode::kInternal, "cannot read " + path);
  return text;
}

Result<Value> ReadJsonFile(const std::string& path) {
  const Result<std::string> text = ReadWholeFile(path);
  if (!text.has_value()) return Forward(text);
  Result<Value> value = TemplateValueFromJsonText(*text);
  if (!value.has_value()) return Fail(value.error().code, path + ": " + value.error().message);
  return value;
}

// Fills the inputs from a list of messages or from an object that holds one.
Result<> ReadConversation(const Value& json, const std::string& path, ChatTemplateInputs* inputs) {
  if (json.is_list_or_tuple()) {
    inputs->messages = json;
    return {};
  }
  const Value* messages = json.is(templates::Kind::kDict) ? json.dict().Find("messages") : nullptr;
  if (messages == nullptr)
    return Fail(ErrorCode::kInvalid,
                path + " must hold a list of messages, or an object with \"messages\"");
  inputs->messages = *messages;
  if (const Value* tools = json.dict().Find("tools"); tools != nullptr) inputs->tools = *tools;
  if (const Value* documents = json.dict().Find("documents"); documents != nullptr)
    inputs->documents = *documents;
  const Value* extra = json.dict().Find("extra");
  if (extra == nullptr || !extra->is(templates::Kind::kDict)) return {};
  for (const auto& [name, value] : extra->dict().entries())
    inputs->variables.emplace_back(name.string(), value);
  return {};
}

Result<> AddVariables(const std::vector<std::string>& definitions, ChatTemplateInputs* inputs) {
  for (const std::string& definition : definitions) {
    const std::size_t equals = definition.find('=');
    if (equals == std::string::npos || equals == 0)
      return Fail(ErrorCode::kInvalid, "--var needs NAME=JSON, got '" + definition + "'");
    Result<Value> value = TemplateValueFromJsonText(definition.substr(equals + 1));
    if (!value.has_value())
      return Fail(ErrorCode::kInvalid, "--var " + definition.substr(0, equals) + ": " +
                                           value.error().message +
                                           " (a string needs quotes: NAME='\"text\"')");
    inputs->variables.emplace_back(definition.substr(0, equals), std::move(*value));
  }
  return {};
}

Result<ChatTemplate> LoadTemplate(const TemplateCommandOptions& options) {
  if (options.template_text.has_value() == options.template_file.has_value())
    return Fail(ErrorCode::kInvalid, "name either a model or a template file");
  if (options.template_text.has_value()) return ChatTemplate::FromSource(*options.template_text);
  const Result<std::string> source = ReadWholeFile(*options.template_file);
  if (!source.has_value()) return Forward(source);
  return ChatTemplate::FromSource(*source);
}

}  // namespace

Result<std::string> RenderTemplateCommand(const TemplateCommandOptions& options) {
  const Result<ChatTemplate> chat = LoadTemplate(options);
  if (!chat.has_value()) return Forward(chat);
  ChatTemplateInputs inputs;
  const Result<Value> conversation = ReadJsonFile(options.messages_file);
  if (!conversation.has_value()) return Forward(conversation);
  const Result<> read = ReadConversation(*conversation, options.messages_file, &inputs);
  if (!read.has_value()) return Forward(read);
  if (options.tools_file.has_value()) {
    Result<Value> tools = ReadJsonFile(*options.tools_file);
    if (!tools.has_value()) return Forward(tools);
    inputs.tools = std::move(*tools);
  }
  const Result<> added = AddVariables(options.variables, &inputs);
  if (!added.has_value()) return Forward(added);
  inputs.now = options.clock;
  if (options.now.has_value()) {
    const Result<CivilTime> now = ParseCivilTime(*options.now);
    if (!now.has_value()) return Forward(now);
    inputs.now = *now;
  }
  inputs.add_generation_prompt = options.add_generation_prompt && !options.continue_final_message;
  inputs.continue_final_message = options.continue_final_message;
  inputs.bos_token = options.bos_token;
  inputs.eos_token = options.eos_token;
  return options.adapt_shapes ? chat->RenderAdapted(inputs, TemplateLimits{})
                              : chat->RenderAsGiven(inputs, TemplateLimits{});
}

}  // namespace baton
