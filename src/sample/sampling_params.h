// What a request may say about the choice of its tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace baton {

// A number added to one token's logit, or a ban.
struct LogitBias {
  // No number to be added: the token is never chosen, whatever the temperature.
  static constexpr double kBan = -100.0;

  TokenId token = 0;
  double bias = 0.0;

  bool is_ban() const { return bias == kBan; }
};

// Settings of the sampler. The defaults leave the model's distribution as it is.
// The order in which they act is documented in sampler.h.
struct SamplingParams {
  // At or below this the choice is greedy: differences of logits that rounding could make would
  // otherwise be drawn from.
  static constexpr double kGreedyTemperature = 1e-4;
  static constexpr double kMaxTemperature = 1e9;
  static constexpr double kMaxRepetitionPenalty = 100.0;
  static constexpr double kMaxAdditivePenalty = 2.0;
  static constexpr double kMaxBias = 100.0;

  double temperature = 1.0;         // 0..kMaxTemperature; 0: greedy
  int64_t top_k = 0;                // 0: off; beyond the vocabulary: all
  double top_p = 1.0;               // 0..1; 1: off; 0 keeps one token
  double min_p = 0.0;               // 0..1; 0: off; 1 keeps the most probable and its equals
  double repetition_penalty = 1.0;  // above 0, to kMaxRepetitionPenalty; 1: off
  double frequency_penalty = 0.0;   // −2..2; 0: off
  double presence_penalty = 0.0;    // −2..2; 0: off
  // How many of the last tokens the penalties look at, at least 1; nothing: all of them.
  std::optional<int64_t> penalty_window;
  std::vector<LogitBias> logit_bias;  // each token at most once, −100 (a ban)..100; not all banned
  uint64_t seed = 0;
  // Log-probabilities of the choice and of so many alternatives (0 to the vocabulary's size);
  // nothing: none.
  std::optional<int64_t> num_top_logprobs;

  bool is_greedy() const { return temperature <= kGreedyTemperature; }
  bool has_penalties() const {
    return repetition_penalty != 1.0 || frequency_penalty != 0.0 || presence_penalty != 0.0;
  }
};

// Checks every field against its range and every token id against the vocabulary.
// Errors: invalid, naming the field, the value and the range.
Result<> Validate(const SamplingParams& params, int64_t vocab_size);

}  // namespace baton
