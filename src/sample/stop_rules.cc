#include "sample/stop_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/number_text.h"

namespace baton {

std::string_view StopReasonName(StopReason reason) {
  switch (reason) {
    case StopReason::kEndToken:
      return "end-token";
    case StopReason::kStopString:
      return "stop-string";
    case StopReason::kLength:
      return "length";
    case StopReason::kContextFull:
      return "context-full";
    case StopReason::kCancelled:
      return "cancelled";
    case StopReason::kDeadline:
      return "deadline";
  }
  return "?";
}

Result<> Validate(const StopRules& rules, int64_t vocab_size) {
  if (rules.max_tokens && *rules.max_tokens < 0) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("max_tokens must be at least 0, got {}", *rules.max_tokens));
  }
  if (rules.max_context < 1) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("the context must hold at least 1 token, got {}", rules.max_context));
  }
  for (const TokenId token : rules.end_tokens) {
    if (token < 0 || token >= vocab_size) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("end token id {} is not in 0..{}", token, vocab_size - 1));
    }
  }
  return {};
}

Result<> CheckPromptFits(const StopRules& rules, int64_t num_prompt) {
  if (num_prompt < rules.max_context) return {};
  return Fail(ErrorCode::kInvalid,
              fmt::format("the prompt has {} and leaves no room for an answer in a context "
                          "of {}; shorten it or ask for a larger context",
                          CountOf(num_prompt, "token"), CountText(rules.max_context)));
}

std::optional<StopReason> StopBeforeNext(const StopRules& rules, const GenerationLength& length) {
  if (rules.max_tokens && length.num_generated >= *rules.max_tokens) return StopReason::kLength;
  if (length.num_known >= rules.max_context) return StopReason::kContextFull;
  return std::nullopt;
}

bool EndsGeneration(const StopRules& rules, TokenId token) {
  if (rules.ignore_end_tokens) return false;
  return std::find(rules.end_tokens.begin(), rules.end_tokens.end(), token) !=
         rules.end_tokens.end();
}

}  // namespace baton
