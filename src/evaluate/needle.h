// Whether a fact in the middle of a long text is found again: retrieval by length and depth, dense
// and by sparse policies.
//
// A prompt is the beginning of a text with a sentence put into it, "The secret code of Lisbon is
// 4812.", and ends in "The secret code of Lisbon is". What is asked of the model is to go on with
// the code: the form that a small model without training for questions can answer. The answer is
// read with the prompt, so one run gives the probability of each of its tokens after the right ones
// before it, and with that whether greedy decoding would write it.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/loaded_model.h"
#include "evaluate/divergence.h"
#include "kernels/sparse_policy.h"

namespace baton {

struct NeedleLimits {
  static constexpr int64_t kMinLength = 100;  // tokens of a prompt
  static constexpr int kMaxTrials = 100;
};

struct NeedleOptions {
  std::string_view text;         // at least as many tokens as the longest prompt
  std::vector<int64_t> lengths;  // of the prompts, answer included; tokens
  std::vector<int64_t> depths;   // in percent of the text in the prompt
  std::vector<SparsePolicy> policies;
  int num_trials = 2;  // names and codes for each length and depth
  uint64_t seed = 1;
};

// One length and depth.
struct NeedleCell {
  int trials = 0;
  int found = 0;               // the greedy answer is the right one
  double log_probability = 0;  // of the right answer, mean over the trials; nats

  double share() const { return trials == 0 ? 0 : static_cast<double>(found) / trials; }
};

// [lengths][depths]
using NeedleGrid = std::vector<std::vector<NeedleCell>>;

struct NeedleResult {
  NeedleGrid dense;
  std::vector<NeedleGrid> policies;
};

// A prompt with a needle.
struct NeedlePrompt {
  std::vector<TokenId> tokens;
  int64_t num_answer_tokens = 0;  // at the end
  int64_t needle_position = 0;    // of its first token
};

// Where a needle goes and which one it is.
struct NeedlePlace {
  int64_t length = 0;
  int64_t depth = 0;  // percent
  int trial = 0;
};

// The prompt of one place. The needle stands after a line's end, if there is one shortly before its
// depth. `text_tokens`: the text's, without BOS.
// Errors: invalid (a text that is too short, a length that has no room for needle and question).
Result<NeedlePrompt> MakeNeedlePrompt(const Tokenizer& tokenizer,
                                      std::span<const TokenId> text_tokens,
                                      const NeedlePlace& place, uint64_t seed);

// Sentences that say little, in random order, for when there is no text. Units: bytes, at least.
std::string FillerText(int64_t num_bytes, uint64_t seed);

// Errors: as above; invalid (nothing to measure, a policy that the model cannot have), exhausted,
// cancelled. Threads: alone with the model.
Result<NeedleResult> MeasureNeedles(LoadedModel& model, const NeedleOptions& options,
                                    const TokenProgress& progress, const std::atomic<bool>& cancel);

}  // namespace baton
