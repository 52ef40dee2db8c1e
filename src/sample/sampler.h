// From logits to a token.
//
// The order, and why:
//  1. bias: the caller's edit of the model's opinion, so it comes before anything derived from it;
//     −100 is a ban, −infinity.
//  2. penalties: on logits, where their formulas are defined; a token biased to 100 stays forced.
//  3. temperature: divides the differences to the best logit. Greedy ends here: the best token,
//     the lower id among equals.
//  4. top-k: a count, so it means the same at any temperature.
//  5. top-p: the smallest set of best tokens whose share of what top-k left reaches top_p.
//  6. min-p: of these, the tokens at least min_p times as probable as the best. 5 and 6 come after
//     the temperature because they speak of the probabilities that are drawn from.
//  7. draw: a number of the stream at (seed, position) picks from what is left, ids ascending.
//     A filter that removes nothing changes nothing.
// NaN counts as −infinity and is never chosen. All sums run in double in one order, with our own
// exp and log (base/portable_math.h): threads, batch and instruction set cannot show.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "sample/penalties.h"
#include "sample/sampling_params.h"
#include "sample/top_select.h"

namespace baton {

// A token and the logarithm of its probability: natural, finite, at most 0.
struct TokenLogprob {
  TokenId id = 0;
  double logprob = 0.0;
};

// A choice. Log-probabilities are present if SamplingParams::num_top_logprobs is.
//  - raw: of the model's own distribution, softmax of the logits as they came.
//  - final: of the distribution drawn from, after steps 1 to 6; greedy leaves one token, logprob 0.
// The lists hold the n most probable tokens, best first, and fewer where fewer have a probability.
struct SampledToken {
  TokenId id = 0;
  bool has_logprobs = false;
  double raw_logprob = 0.0;
  double final_logprob = 0.0;
  std::vector<TokenLogprob> raw_top;
  std::vector<TokenLogprob> final_top;
};

// Chooses tokens for one vocabulary. Keeps only scratch memory: what it returns is a function of
// the arguments.
// Threads: one at a time for each sampler.
class Sampler {
 public:
  // Requires: vocab_size > 0.
  explicit Sampler(int64_t vocab_size);

  int64_t vocab_size() const { return vocab_size_; }

  // Memory that a sampler takes when made, for estimates; lists of a few hundred come on top.
  static uint64_t BufferBytes(int64_t vocab_size);

  // Chooses the token that follows the history; its position is the history's length.
  // Shapes: logits: [vocab_size] f32.
  // Requires: params are valid (sampling_params.h).
  // Errors: invalid (the history names an unknown token), internal (no finite logit, or +infinity:
  // the forward pass broke down).
  // Memory: after the first calls, allocates nothing but the lists of alternatives.
  Result<SampledToken> Sample(std::span<const float> logits, const SamplingParams& params,
                              const TokenHistory& history);

  // How probable a given token is, in the model's own distribution: the raw fields of a choice,
  // with the num_top best tokens. A token that cannot follow has −infinity. Shapes: logits:
  // [vocab_size] f32. Requires: 0 <= id < vocab_size; num_top >= 0. Errors: internal (no finite
  // logit, or +infinity).
  Result<SampledToken> Score(std::span<const float> logits, TokenId id, int64_t num_top);

 private:
  // What turns a value into a log-probability: its distance to the best, less the logarithm of the
  // sum of exp of these distances.
  struct Normaliser {
    double best = 0.0;
    double log_sum = 0.0;
    double Logprob(double value) const { return (value - best) - log_sum; }
  };

  Normaliser NormaliserOf(double best_logit);
  void ListRawTop(const Normaliser& raw, int64_t num_top, SampledToken& token);
  void ScaleByTemperature(double temperature);
  void Filter(const SamplingParams& params);
  void KeepTopP(double top_p, double total);
  void KeepTopPOfAll(double top_p);
  double WeighKept();
  size_t Draw(double total_weight, double uniform) const;
  void ListFinalTop(double log_total, int64_t num_top, SampledToken& token);

  const int64_t vocab_size_;
  TokenCounts counts_;
  std::vector<double> values_;   // [vocab_size] logits, then distances to the best by temperature
  std::vector<Candidate> kept_;  // what the filters have left
  std::vector<double> weights_;  // exp of the kept values
  std::vector<Candidate> best_;  // scratch of the lists
  std::vector<double> scratch_;  // scratch of the sums
};

}  // namespace baton
