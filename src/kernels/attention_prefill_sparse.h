// Block-sparse prefill attention: each tile of rows reads the blocks of keys that its policy keeps,
// and adds the means of the others.
//
// Beside attention.h: rows lie in tiles on the absolute grid of their sequence, and a tile and KV
// head together choose blocks by how their estimates (means, far keys) answer the tile's queries
// (block_select.h). Kept blocks are walked as dense attention walks all of them, so a tile that
// keeps all has the bits of PrefillAttention. Dropped blocks are a last segment of pseudo-tokens:
// an estimate with the logarithm of its count for a bias.
//
// A row depends on the rows of its tile that are in the same call; calls that begin and end at
// multiples of the tile (or at the prompt's end) give the bits of one call, whatever their size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "kernels/attention.h"
#include "kernels/block_select.h"
#include "kernels/kernel_context.h"
#include "kernels/sparse_policy.h"

namespace baton {

// Blocks of tiles, summed. Units: selection blocks.
struct BlockCounts {
  int64_t kept = 0;
  int64_t candidates = 0;  // that some row sees
};

// Time of all threads together. Units: nanoseconds.
struct SparseTimes {
  int64_t pack = 0;  // bringing estimates together
  int64_t score = 0;
  int64_t select = 0;
  int64_t attend = 0;
  int64_t correct = 0;
};

// What was chosen for one tile and KV head. Lists are in ascending order.
struct TileSelection {
  int64_t sequence = 0;  // index in AttentionArgs::sequences
  int64_t tile = 0;      // on the absolute grid
  TileRows rows;         // that the call has
  int layer = 0;         // SparsePrefillArgs::layer
  int kv_head = 0;
  bool is_dense = false;
  TileBlocks blocks = {};
  float largest_logit = 0;                  // that votes; units: natural logarithm; 0 if dense
  std::span<const float> energies = {};     // of blocks low..scored_end-1; empty if dense
  std::span<const int32_t> kept = {};       // selection blocks
  std::span<const int32_t> corrected = {};  // empty without correction
};

// Hears of every tile's selection. Threads: called by any of the pool's, several at a time.
class TileObserver {
 public:
  virtual ~TileObserver() = default;
  virtual void OnTile(const TileSelection& selection) = 0;
};

struct SparsePrefillArgs {
  AttentionArgs attention;  // workspace: SparsePrefillWorkspaceBytes
  const SparsePolicy* policy = nullptr;
  int layer = 0;  // for the policy's list of dense layers and heads
  // Tokens of each sequence's whole prompt, whatever this call has of it. Rows from there on are
  // dense; so is a sequence with 0.
  std::span<const int64_t> prompt_tokens;
  View2<float> lse = {};               // [num_rows, num_heads] ln of each row's sum; or none
  std::span<BlockCounts> counts = {};  // [num_kv_heads], added to; or none
  TileObserver* observer = nullptr;    // or none
  Clock* clock = nullptr;              // for times; or none
  SparseTimes* times = nullptr;        // added to; or none
};

// Bytes of AttentionArgs::workspace for SparsePrefillAttention. Grows with the sequences' ends,
// never shrinks with one of them.
size_t SparsePrefillWorkspaceBytes(const AttentionShape& shape, const SparsePolicy& policy,
                                   std::span<const AttentionSequence> sequences, int num_threads);

// Writes the attention output of every row of every sequence; other rows of out stay as they are.
// Requires: see AttentionArgs; ValidatePolicy(policy), except that alpha may be any number;
// statistics of all complete blocks that some row sees whole are written (kv_write.h); positions
// below 2^31.
// Threads: tasks are (KV head, sequence, tile).
// Memory: allocates nothing.
// Source: arXiv 2608.19758 for threshold, means and correction.
void SparsePrefillAttention(const KernelContext& context, const SparsePrefillArgs& args);

}  // namespace baton
