#include "serve/prepared_call.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "text/guarded_chat.h"
#include "text/template_json.h"
#include "text/unicode.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// The value with guards in every string, keys included. Requires: nested no deeper than
// kMaxJsonDepth.
Json Guarded(const Json& value, const Tokenizer& tokenizer) {
  if (value.is_string()) return tokenizer.GuardContent(value.get_ref<const std::string&>());
  if (value.is_array()) {
    Json list = Json::array();
    for (const Json& item : value) list.push_back(Guarded(item, tokenizer));
    return list;
  }
  if (!value.is_object()) return value;
  Json object = Json::object();
  for (const auto& [key, item] : value.items()) {
    object[tokenizer.GuardContent(key)] = Guarded(item, tokenizer);
  }
  return object;
}

// Without marks between the digits: programs read it.
std::string TokensText(int64_t count) {
  return fmt::format("{} token{}", count, count == 1 ? "" : "s");
}

tl::unexpected<ApiError> TooLong(const std::string& param, const std::string& tokens,
                                 const TextModel& model) {
  return tl::unexpected<ApiError>(FieldError(
      param,
      fmt::format("the prompt has {} and leaves no room for an answer in the context of {}", tokens,
                  model.context_tokens),
      "context_length_exceeded"));
}

// A text that no splitting into tokens could fit is refused before anybody tries.
ApiResult<> CheckBytes(std::string_view text, const std::string& param, const TextModel& model) {
  if (std::ssize(text) / model.longest_piece_bytes < model.context_tokens) return {};
  return TooLong(param, "over " + TokensText(model.context_tokens), model);
}

ApiResult<> CheckTokens(const std::vector<TokenId>& ids, const std::string& param,
                        const TextModel& model) {
  if (ids.empty()) {
    return BadField(param, fmt::format("'{}' comes to no token at all; add some words", param));
  }
  if (std::ssize(ids) < model.context_tokens) return {};
  return TooLong(param, TokensText(std::ssize(ids)), model);
}

ApiResult<std::vector<TokenId>> EncodePrompt(const CompletionPrompt& prompt,
                                             const std::string& param, const TextModel& model) {
  std::vector<TokenId> ids;
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    if (auto fits = CheckBytes(*text, param, model); !fits) return ForwardApi(fits);
    auto encoded = model.tokenizer.Encode(*text, {.add_special = true, .parse_special = true});
    if (!encoded) return tl::unexpected<ApiError>(ApiErrorOf(encoded.error(), param));
    ids = *std::move(encoded);
    const Tokenizer& tokenizer = model.tokenizer;
    if (tokenizer.adds_eos() && !ids.empty() && ids.back() == tokenizer.eos()) ids.pop_back();
  } else {
    ids = std::get<std::vector<TokenId>>(prompt);
  }
  if (auto fits = CheckTokens(ids, param, model); !fits) return ForwardApi(fits);
  return ids;
}

// Tools for the template, and how calls are read.
ApiResult<> AddTools(const ChatTools& tools, const TextModel& model, ChatTemplateInputs& inputs,
                     PreparedCall& prepared) {
  if (tools.names.empty()) return {};
  if (!model.chat_template->knows_tools()) {
    return tl::unexpected<ApiError>(FieldError(
        "tools", "the chat template of this model does not know tools", "tools_not_supported"));
  }
  const std::optional<ToolFormat> format = ToolFormatOf(model.chat_template->source());
  if (!format) {
    return tl::unexpected<ApiError>(FieldError(
        "tools", "the chat template of this model teaches a form of calls that is not read here",
        "tools_not_supported"));
  }
  auto list = TemplateValueFromJson(Guarded(tools.list, model.tokenizer));
  if (!list) return tl::unexpected<ApiError>(ApiErrorOf(list.error(), "tools"));
  inputs.tools = *std::move(list);
  prepared.tools = ToolRules{.format = *format, .names = tools.names};
  for (const char* mark : {"<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|python_tag|>"}) {
    const std::optional<TokenId> token = model.tokenizer.FindSpecial(mark);
    if (token) prepared.shown_tokens.push_back(*token);
  }
  return {};
}

ApiResult<> CheckPromptLogprobs(const PreparedCall& call) {
  if (!call.prompt_logprobs) return {};
  int64_t num_tokens = 0;
  for (const std::vector<TokenId>& prompt : call.prompts) num_tokens += std::ssize(prompt);
  const int64_t each = *call.fields.sampling.num_top_logprobs + 1;
  const int64_t count = num_tokens * call.fields.num_choices * each;
  if (count <= CallLimits::kMaxPromptLogprobs) return {};
  return BadField("logprobs",
                  fmt::format("{} log-probabilities of the prompts' {} are more "
                              "than one answer holds, {}; ask for fewer prompts, "
                              "choices or alternatives at a time",
                              count, TokensText(num_tokens), CallLimits::kMaxPromptLogprobs));
}

}  // namespace

ApiResult<PreparedCall> PrepareChat(ChatCall call, const TextModel& model, CivilTime now) {
  if (model.chat_template == nullptr) {
    return tl::unexpected<ApiError>(
        FieldError("messages",
                   "this model has no chat template; use /v1/completions, or have the server "
                   "started with --chat-template",
                   "no_chat_template"));
  }
  int64_t num_bytes = call.tools.names.empty() ? 0 : std::ssize(call.tools.list.dump());
  for (Json& message : call.messages) {
    const Json& content = message["content"];
    if (content.is_string()) num_bytes += std::ssize(content.get_ref<const std::string&>());
    // The role is one of five words.
    const std::string role = message["role"].get<std::string>();
    message = Guarded(message, model.tokenizer);
    message["role"] = role;
  }
  if (num_bytes / model.longest_piece_bytes >= model.context_tokens) {
    return TooLong("messages", fmt::format("over {}", model.context_tokens), model);
  }
  auto messages = TemplateValueFromJson(call.messages);
  if (!messages) return tl::unexpected<ApiError>(ApiErrorOf(messages.error(), "messages"));
  ChatTemplateInputs inputs;
  inputs.messages = *std::move(messages);
  inputs.add_generation_prompt = call.add_generation_prompt;
  inputs.continue_final_message = call.continue_final_message;
  inputs.now = now;
  PreparedCall prepared{.is_chat = true, .fields = std::move(call.fields)};
  if (auto read = AddTools(call.tools, model, inputs, prepared); !read) return ForwardApi(read);
  const auto rendered = RenderGuardedChat(*model.chat_template, model.tokenizer, std::move(inputs));
  if (!rendered) return tl::unexpected<ApiError>(ApiErrorOf(rendered.error(), "messages"));
  auto ids = EncodeGuardedChat(model.tokenizer, *rendered);
  if (!ids) return tl::unexpected<ApiError>(ApiErrorOf(ids.error(), "messages"));
  if (auto fits = CheckTokens(*ids, "messages", model); !fits) return ForwardApi(fits);
  prepared.prompts.push_back(*std::move(ids));
  return prepared;
}

ApiResult<PreparedCall> PrepareCompletion(CompletionCall call, const TextModel& model) {
  PreparedCall prepared{.is_chat = false, .fields = std::move(call.fields)};
  for (size_t i = 0; i < call.prompts.size(); ++i) {
    const std::string param = call.prompts.size() == 1 ? "prompt" : fmt::format("prompt[{}]", i);
    auto ids = EncodePrompt(call.prompts[i], param, model);
    if (!ids) return ForwardApi(ids);
    if (call.echo) {
      const auto* text = std::get_if<std::string>(&call.prompts[i]);
      auto spelled = text != nullptr ? Result<std::string>(*text)
                                     : model.tokenizer.Decode(*ids, {.skip_special = false});
      if (!spelled) return tl::unexpected<ApiError>(ApiErrorOf(spelled.error(), param));
      prepared.echoes.push_back(ReplaceInvalidUtf8(*spelled));
    }
    prepared.prompts.push_back(*std::move(ids));
  }
  prepared.prompt_logprobs = call.echo && prepared.fields.sampling.num_top_logprobs.has_value();
  if (auto fits = CheckPromptLogprobs(prepared); !fits) return ForwardApi(fits);
  return prepared;
}

GenerationRequest RequestOf(const PreparedCall& call, int64_t choice, uint64_t seed) {
  GenerationRequest request;
  request.prompt = call.prompts[static_cast<size_t>(call.PromptOf(choice))];
  request.sampling = call.fields.sampling;
  request.sampling.seed = SeedOfChoice(seed, choice % call.fields.num_choices);
  request.prompt_logprobs = call.prompt_logprobs;
  request.max_tokens = call.fields.max_tokens;
  request.stop_strings = call.fields.stops;
  request.prefill = call.fields.prefill;
  request.ignore_end_tokens = call.fields.ignore_eos;
  request.shown_tokens = call.shown_tokens;
  return request;
}

}  // namespace baton
