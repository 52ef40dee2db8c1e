#include "sample/sampling_params.h"

#include <fmt/format.h>

#include <algorithm>

namespace baton {
namespace {

struct Range {
  double low;
  double high;
};

// Also refuses NaN.
Result<> CheckRange(const char* field, double value, Range range) {
  if (value >= range.low && value <= range.high) return {};
  return Fail(ErrorCode::kInvalid,
              fmt::format("{} must be in {}..{}, got {}", field, range.low, range.high, value));
}

Result<> CheckCounts(const SamplingParams& params, int64_t vocab_size) {
  if (params.top_k < 0) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("top_k must be at least 0 (0: off), got {}", params.top_k));
  }
  if (params.penalty_window && *params.penalty_window < 1) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("penalty_window must be at least 1, got {}", *params.penalty_window));
  }
  const std::optional<int64_t> top = params.num_top_logprobs;
  if (top && (*top < 0 || *top > vocab_size)) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("top_logprobs must be in 0..{}, got {}", vocab_size, *top));
  }
  return {};
}

Result<> CheckBias(const SamplingParams& params, int64_t vocab_size) {
  std::vector<TokenId> tokens;
  int64_t num_banned = 0;
  for (const LogitBias& entry : params.logit_bias) {
    if (entry.token < 0 || entry.token >= vocab_size) {
      return Fail(ErrorCode::kInvalid, fmt::format("logit_bias: token id {} is not in 0..{}",
                                                   entry.token, vocab_size - 1));
    }
    if (!(entry.bias >= -SamplingParams::kMaxBias && entry.bias <= SamplingParams::kMaxBias)) {
      return Fail(
          ErrorCode::kInvalid,
          fmt::format("logit_bias: the bias of token id {} must be in {}..{}, got {}", entry.token,
                      -SamplingParams::kMaxBias, SamplingParams::kMaxBias, entry.bias));
    }
    tokens.push_back(entry.token);
    num_banned += entry.is_ban() ? 1 : 0;
  }
  std::sort(tokens.begin(), tokens.end());
  const auto twice = std::adjacent_find(tokens.begin(), tokens.end());
  if (twice != tokens.end()) {
    return Fail(ErrorCode::kInvalid, fmt::format("logit_bias: token id {} appears twice", *twice));
  }
  if (num_banned == vocab_size) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("logit_bias bans all {} tokens; leave one", vocab_size));
  }
  return {};
}

}  // namespace

Result<> Validate(const SamplingParams& params, int64_t vocab_size) {
  using P = SamplingParams;
  if (auto r = CheckRange("temperature", params.temperature, {0.0, P::kMaxTemperature}); !r) {
    return r;
  }
  if (auto r = CheckRange("top_p", params.top_p, {0.0, 1.0}); !r) return r;
  if (auto r = CheckRange("min_p", params.min_p, {0.0, 1.0}); !r) return r;
  const double penalty = params.repetition_penalty;
  if (!(penalty > 0.0 && penalty <= P::kMaxRepetitionPenalty)) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("repetition_penalty must be above 0 and at most {}, got {}",
                            P::kMaxRepetitionPenalty, penalty));
  }
  const Range additive = {-P::kMaxAdditivePenalty, P::kMaxAdditivePenalty};
  if (auto r = CheckRange("frequency_penalty", params.frequency_penalty, additive); !r) return r;
  if (auto r = CheckRange("presence_penalty", params.presence_penalty, additive); !r) return r;
  if (auto r = CheckCounts(params, vocab_size); !r) return r;
  return CheckBias(params, vocab_size);
}

}  // namespace baton
