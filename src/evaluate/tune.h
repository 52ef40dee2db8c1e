// The search of `baton tune`: which sparse prefill keeps a model's answers, and from which length
// on it is faster.
//
// Steps:
//  1. Induction heads (induction.h) with a score above a limit are dense.
//  2. Several shares of blocks without dense layers.
//  3. Each layer that sees everything is made sparse alone, on the text that lost most by shares:
//     what then loses most would be dense first.
//  4. How many of them are: lists of several lengths at equal density, a longer one with a smaller
//     share of blocks in the other layers. The one that loses least is taken.
//  5. The least share that keeps to the wanted divergence, and the threshold of equal density;
//     whichever rule loses less there is taken, and its parameter chosen by the wanted divergence.
//  6. The time of both ways to read, at lengths that double: the break-even.
// Divergences are KL(dense || sparse) in nats, mean over the last positions of a text and others
// spread over it (divergence.h), mean over the texts.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/loaded_model.h"
#include "evaluate/dense_lists.h"
#include "evaluate/induction.h"
#include "kernels/sparse_policy.h"

namespace baton {

struct TuneOptions {
  // What people would ask the model to read. Each at least kLeastTuneTokens tokens.
  std::vector<std::vector<TokenId>> texts;
  double max_kl = 0.02;
  double induction_limit = 0.15;
};

inline constexpr int64_t kLeastTuneTokens = 1024;

// The time of reading so many tokens. Units: ratio of times that were taken in turn.
struct TuneTiming {
  int64_t num_tokens = 0;
  double dense_seconds = 0;
  double ratio = 0;  // sparse / dense
};

struct TuneResult {
  std::vector<InductionHead> induction;  // of all KV heads
  std::vector<LayerLoss> layers;         // of those that see everything
  std::vector<TuneTrial> trials;         // in the order of trying
  TuneTrial chosen;
  bool meets_kl = false;  // whether the chosen one does; if not, nothing is timed
  std::vector<TuneTiming> timings;
  std::optional<int64_t> break_even_tokens;  // nothing: not faster at the longest
};

// Called with the tokens read so far, and about how many will be.
using TuneProgress = std::function<void(int64_t done_tokens, int64_t total_tokens)>;

// Errors: invalid (no text, one that is too short or longer than the context), exhausted,
// cancelled. Threads: alone with the model.
Result<TuneResult> Tune(LoadedModel& model, const TuneOptions& options,
                        const TuneProgress& progress, const std::atomic<bool>& cancel);

// A ratio of times below this counts as faster: what is nearer to 1 may be chance.
inline constexpr double kFasterRatio = 0.97;

// The break-even of timings with ascending lengths: where the last one that is not faster goes over
// into the next, which is; the first if all are faster, as nothing shorter was timed; nothing if
// the last is not.
std::optional<int64_t> BreakEvenOf(const std::vector<TuneTiming>& timings);

// The numbers as one JSON object, for the tune file and for programs.
std::string TuneJson(const TuneResult& result, const TuneOptions& options);

}  // namespace baton
