// Which prompts a step reads on, and how far: pure functions on counts.
//
// All decode rows are in every step (decode first), so a stream's gap is the time of a step, and a
// step with streams may take max_gap_steps decode steps (S-1). What the decode rows leave of that
// time goes to prefill:
//  1. where one would else wait max_prefill_wait steps, as many as have to be served in each step
//     get at least kLeastChunk tokens, whatever the time (S-2), those that waited longest first;
//  2. then short prompts, the oldest first: they end soon and wait the least;
//  3. then long ones, the oldest first.
// Each takes as much as the time still allows; without streams time does not count, only rows do.
#pragma once

#include <cstdint>
#include <span>

#include "schedule/step_time_model.h"

namespace baton {

// The fewest tokens of a chunk, unless fewer are pending: what S-2 asks of a step is spent even if
// it is too much for S-1, so it is little.
inline constexpr int64_t kLeastChunk = 8;
// Chunks end at multiples of this position, or of a half, a quarter ... of it, where that costs
// little, so that blocks and the tiles of sparse prefill stay whole.
inline constexpr int64_t kChunkGrid = 128;

// A sequence that is being read. Its order is its place in the list: the oldest first.
struct PrefillCandidate {
  int64_t computed = 0;  // tokens in the cache
  int64_t pending = 0;   // tokens to compute, at least 1
  int32_t waited = 0;    // steps since it last advanced
  bool is_long = false;
  // A chunk that does not end the prompt ends at a multiple of it: whole tiles of a sparse prefill.
  // A power of two; `computed` is a multiple of it.
  int64_t unit = 1;
  // What each token costs beyond the model's prediction: logits of a prompt's rows.
  double logit_seconds = 0.0;
};

struct PrefillBudget {
  int64_t rows = 0;  // prompt tokens of the step
  // Of the whole step; nothing to hold up: infinity. Units: seconds.
  double seconds = 0.0;
  int32_t max_wait = 4;  // S-2
  StepFeatures decode;   // what the step computes anyway
};

// The tokens that are due to a candidate once in max_wait steps, when so many are read in turn.
// Requires: max_wait >= 1. Units: tokens.
int64_t LeastChunk(int64_t rows, int64_t num_candidates, int32_t max_wait);

// The chunk of each candidate in tokens, 0 for none. Requires: chunks is as long as candidates.
// Memory: allocates nothing.
void ChoosePrefillChunks(const StepTimeModel& model, std::span<const PrefillCandidate> candidates,
                         const PrefillBudget& budget, std::span<int64_t> chunks);

}  // namespace baton
