#include "serve/completion_call.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/number_text.h"
#include "serve/json_body.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

ApiResult<CompletionPrompt> ReadPrompt(const Json& prompt, const std::string& name,
                                       const CallLimits& limits) {
  if (prompt.is_string()) return CompletionPrompt(prompt.get<std::string>());
  auto ids = ReadTokenIds(prompt, name, limits);
  if (!ids) return ForwardApi(ids);
  return CompletionPrompt(*std::move(ids));
}

// One prompt or several: a string, ids, strings, or lists of ids.
ApiResult<> ReadPrompts(const JsonFields& fields, const CallLimits& limits, CompletionCall& call) {
  const Json* prompt = fields.Find("prompt");
  if (prompt == nullptr) return BadField("prompt", "'prompt' is missing");
  if (!prompt->is_string() && !prompt->is_array()) {
    return BadField("prompt", fmt::format("'prompt' must be a string, token ids, or a list of "
                                          "these, not {}",
                                          JsonTypeName(*prompt)));
  }
  const bool is_one = prompt->is_string() || (!prompt->empty() && prompt->front().is_number());
  if (is_one) {
    auto read = ReadPrompt(*prompt, "prompt", limits);
    if (!read) return ForwardApi(read);
    call.prompts.push_back(*std::move(read));
    return {};
  }
  if (prompt->empty()) return BadField("prompt", "'prompt' is an empty list");
  if (std::ssize(*prompt) * call.fields.num_choices > CallLimits::kMaxChoices) {
    return BadField(
        "prompt", fmt::format("{} with {} each exceed the limit of {} "
                              "choices in one call",
                              CountOf(std::ssize(*prompt), "prompt"),
                              CountOf(call.fields.num_choices, "choice"), CallLimits::kMaxChoices));
  }
  for (size_t i = 0; i < prompt->size(); ++i) {
    const Json& one = (*prompt)[i];
    if (one.type() != prompt->front().type() || (!one.is_string() && !one.is_array())) {
      return BadField("prompt", "'prompt' must hold strings only, or token ids only");
    }
    auto read = ReadPrompt(one, fmt::format("prompt[{}]", i), limits);
    if (!read) return ForwardApi(read);
    call.prompts.push_back(*std::move(read));
  }
  return {};
}

}  // namespace

ApiResult<std::vector<TokenId>> ReadTokenIds(const Json& list, const std::string& name,
                                             const CallLimits& limits) {
  std::vector<TokenId> ids;
  if (!list.is_array() || list.empty()) {
    return BadField(name, fmt::format("'{}' has no token ids", name));
  }
  ids.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& id = list[i];
    const bool is_id =
        id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(limits.vocab_size);
    if (!is_id) {
      return BadField(
          name, fmt::format("'{}' number {} must be a token id from 0 to {}, got {}", name, i,
                            limits.vocab_size - 1, id.is_number() ? id.dump() : JsonTypeName(id)));
    }
    ids.push_back(static_cast<TokenId>(id.get<uint64_t>()));
  }
  return ids;
}

ApiResult<CompletionCall> ReadCompletionCall(const Json& body, const CallLimits& limits) {
  CompletionCall call;
  auto common = ReadCallFields(body, limits);
  if (!common) return ForwardApi(common);
  call.fields = *std::move(common);
  if (!call.fields.max_tokens) call.fields.max_tokens = CompletionCall::kDefaultMaxTokens;
  const JsonFields fields(body);
  if (auto read = ReadPrompts(fields, limits, call); !read) return ForwardApi(read);
  const Json* tools = fields.Find("tools");
  if (tools != nullptr && *tools != Json::array()) {
    return BadField("tools", "'tools' goes with /v1/chat/completions only");
  }
  const auto logprobs = fields.Integer("logprobs", {0, CallLimits::kMaxTopLogprobs});
  if (!logprobs) return ForwardApi(logprobs);
  call.fields.sampling.num_top_logprobs = *logprobs;
  const auto echo = fields.Bool("echo");
  if (!echo) return ForwardApi(echo);
  call.echo = echo->value_or(false);
  return call;
}

}  // namespace baton
