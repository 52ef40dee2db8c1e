#include "sample/penalties.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace baton {
namespace {

// The last tokens of the history that a window of this size shows.
std::span<const TokenId> Window(std::span<const TokenId> tokens, std::optional<int64_t> window) {
  const int64_t size = std::ssize(tokens);
  return tokens.last(window ? std::min(*window, size) : size);
}

}  // namespace

void TokenCounts::Forget() {
  for (const TokenId token : distinct_) counts_[token] = 0;
  distinct_.clear();
}

Result<> TokenCounts::Count(std::span<const TokenId> tokens) {
  Forget();
  for (const TokenId token : tokens) {
    if (token < 0 || token >= std::ssize(counts_)) {
      Forget();
      return Fail(ErrorCode::kInvalid, fmt::format("token id {} of the history is not in 0..{}",
                                                   token, std::ssize(counts_) - 1));
    }
    if (counts_[token]++ == 0) distinct_.push_back(token);
  }
  return {};
}

void ApplyBias(const SamplingParams& params, std::span<double> logits) {
  for (const LogitBias& entry : params.logit_bias) {
    CHECK(entry.token >= 0 && entry.token < std::ssize(logits));
    double& logit = logits[entry.token];
    logit = entry.is_ban() ? -std::numeric_limits<double>::infinity() : logit + entry.bias;
  }
}

Result<> ApplyPenalties(const SamplingParams& params, const TokenHistory& history,
                        TokenCounts& counts, std::span<double> logits) {
  CHECK(history.num_prompt >= 0 && history.num_prompt <= std::ssize(history.tokens));
  const std::span<const TokenId> seen = Window(history.tokens, params.penalty_window);
  if (params.repetition_penalty != 1.0) {
    if (auto r = counts.Count(seen); !r) return r;
    for (const TokenId token : counts.distinct()) {
      double& logit = logits[token];
      logit = logit > 0.0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    }
  }
  if (params.frequency_penalty != 0.0 || params.presence_penalty != 0.0) {
    const int64_t num_generated = std::ssize(history.tokens) - history.num_prompt;
    if (auto r = counts.Count(seen.last(std::min(num_generated, std::ssize(seen)))); !r) return r;
    for (const TokenId token : counts.distinct()) {
      logits[token] -= params.frequency_penalty * counts.count(token) + params.presence_penalty;
    }
  }
  return {};
}

}  // namespace baton
