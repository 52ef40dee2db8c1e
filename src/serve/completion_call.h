// The body of /v1/completions.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "serve/api_error.h"
#include "serve/call_fields.h"

namespace baton {

// A prompt as text or as token ids.
using CompletionPrompt = std::variant<std::string, std::vector<TokenId>>;

// Plain data, checked.
struct CompletionCall {
  // What the API says where nothing is said.
  static constexpr int64_t kDefaultMaxTokens = 16;

  CallFields fields = {};
  std::vector<CompletionPrompt> prompts = {};
  // The prompt's text stands before the answer's, and its log-probabilities before the answer's if
  // any are wanted.
  bool echo = false;
};

// Errors: as ReadCallFields; 400: no prompt, one that is neither text nor ids of the vocabulary,
// more choices than CallLimits::kMaxChoices in all.
ApiResult<CompletionCall> ReadCompletionCall(const nlohmann::ordered_json& body,
                                             const CallLimits& limits);

// A list of token ids. Errors: 400, with the field's name and the place of what is no id.
ApiResult<std::vector<TokenId>> ReadTokenIds(const nlohmann::ordered_json& list,
                                             const std::string& name, const CallLimits& limits);

}  // namespace baton
