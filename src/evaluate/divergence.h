// What a sparse prefill loses and what it saves: each of several policies against dense attention,
// over the same tokens.
//
// The loss at a position is KL(dense || sparse) of the two distributions over the whole
// vocabulary, in nats, from the logits in double. The saving is a ratio of times that were taken in
// turn: a round reads the prompt densely and then by each policy.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "engine/loaded_model.h"
#include "forward/prefill.h"
#include "kernels/sparse_policy.h"

namespace baton {

// Positions that are summed up together.
struct PositionSet {
  std::string name;
  std::vector<int64_t> positions;  // ascending, each once
};

// "last": the last `count` positions of a prompt; "spread": `count` over all of it, each in the
// middle of its share. Fewer if the prompt is shorter. Requires: num_tokens, count >= 1.
std::vector<PositionSet> LastAndSpread(int64_t num_tokens, int64_t count);

// The loss over a set of positions. Units: nats. A share q of the positions loses at most the
// percentile: the value of rank ceil(q * count).
struct DivergenceFigures {
  int64_t count = 0;
  double mean = 0;
  double p95 = 0;
  double p99 = 0;
  double max = 0;
  double top1 = 0;        // share of positions whose likeliest token is the same
  double nll_change = 0;  // mean of -ln p(next token), sparse less dense; over those that have one
};

struct DivergenceOptions {
  std::vector<PositionSet> sets = {};
  std::vector<SparsePolicy> policies = {};
  int num_rounds = 0;  // timed, besides the one that measures the loss; 0: no times
  // For the dense logits of all positions: 4 bytes for each of the vocabulary. 1,024 positions of
  // a vocabulary of 262,144 are 1 GiB.
  uint64_t max_bytes = uint64_t{4} << 30;
};

struct PolicyDivergence {
  SparsePolicy policy;
  std::vector<DivergenceFigures> sets;  // as in the options
  PrefillReport report;                 // blocks of each layer; time of all threads of one run
  std::vector<double> seconds;          // of each timed round
  double time_ratio = 0;                // median of the rounds' sparse / dense; 0: not timed
  // Kept blocks as a share of candidates, of all layers that see everything (of all layers, if the
  // policy makes those with a window sparse, too).
  double density = 1;
};

// Kept blocks as a share of candidates; 1 if there are none.
double DensityOf(const BlockCounts& counts);

struct DivergenceResult {
  std::vector<double> dense_seconds;  // of each timed round
  std::vector<double> dense_nll;      // of each set: mean of -ln p(next token)
  std::vector<PolicyDivergence> policies;
};

// Called with the tokens read so far, of all that will be.
using TokenProgress = std::function<void(int64_t done_tokens, int64_t total_tokens)>;

// Reads the tokens once densely and once by each policy for the loss, then num_rounds times for
// the time, the logits of the last position only.
// The policy that the model was opened with plays no part.
// Errors: invalid (no tokens, no policies, a policy that the model cannot have, a position out of
// range), exhausted (memory, with the way out), cancelled.
// Threads: alone with the model.
Result<DivergenceResult> MeasureDivergence(LoadedModel& model, std::span<const TokenId> tokens,
                                           const DivergenceOptions& options,
                                           const TokenProgress& progress,
                                           const std::atomic<bool>& cancel);

}  // namespace baton
