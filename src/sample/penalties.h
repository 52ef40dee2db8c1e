// What pushes single logits up or down before the distribution is formed: biases and penalties.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "sample/sampling_params.h"

namespace baton {

// The tokens of a sequence so far: the prompt, then what was generated.
struct TokenHistory {
  std::span<const TokenId> tokens;
  int64_t num_prompt = 0;  // how many of them are the prompt
};

// Counts tokens in memory that is kept. Size: 4 bytes per token of the vocabulary.
class TokenCounts {
 public:
  explicit TokenCounts(int64_t vocab_size) : counts_(vocab_size, 0) {}

  // Counts the tokens; what was counted before is forgotten.
  // Errors: invalid (a token outside the vocabulary, with its id); then nothing is counted.
  // Memory: allocates only until it has seen as many distinct tokens as it will.
  Result<> Count(std::span<const TokenId> tokens);

  // The distinct tokens counted, in the order of their first appearance.
  std::span<const TokenId> distinct() const { return distinct_; }
  int32_t count(TokenId token) const { return counts_[token]; }

 private:
  void Forget();

  std::vector<int32_t> counts_;
  std::vector<TokenId> distinct_;
};

// Adds each bias to its logit; a ban makes it −infinity. Requires: params are valid for
// logits.size().
void ApplyBias(const SamplingParams& params, std::span<double> logits);

// Lowers (or lifts) the logits of tokens that have appeared, in this order:
//  - repetition: once for each distinct token of prompt and generated text, a positive logit is
//    divided by the penalty, a negative one multiplied;
//  - frequency and presence: of generated tokens only (the prompt does not count), frequency times
//    the token's count and presence once are subtracted.
// With a window of n, only the last n tokens of the history are looked at; of these, frequency and
// presence count the generated ones.
// Requires: params are valid for logits.size(); counts is made for it.
// Errors: invalid (the history names a token outside the vocabulary).
Result<> ApplyPenalties(const SamplingParams& params, const TokenHistory& history,
                        TokenCounts& counts, std::span<double> logits);

}  // namespace baton
