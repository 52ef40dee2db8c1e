// The functions of one instruction set behind attention_prefill_sparse.h: raw pointers, no checks.
//
// Life of one tile of rows and one KV head, all on one thread:
//  1. prepare: the rows' queries, scaled;
//  2. score: their logits with the estimates of complete blocks, the blocks' energies, and the
//     estimates' weights;
//  3. (block_select.h chooses);
//  4. attend: the kept blocks, in the dense kernel's segments and order;
//  5. correct: the dropped blocks' estimates as a last segment of keys, with the weights of score;
//  6. finish: one division per row.
// The state between these lies in the task's scratch.
//
// Estimates are packed once per call: strips of 64 selection blocks, at block numbers that are
// multiples of 64. A strip holds, for each of `num_slabs` estimates per block, a slab of keys
// [head_dim][64] f32, then for each of them values as in a record: slabs [64][columns] f32. Lane i
// of every slab of strip s belongs to block 64 s + i.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention_ops.h"

namespace baton {

inline constexpr int kStripBlocks = kBlockTokens;
inline constexpr int kMaxEstimateSlabs = 2 * (kMaxFarKeys + 1);

// Floats of one packed strip.
constexpr int64_t PackedStripFloats(int head_dim, int num_slabs) {
  return int64_t{2} * num_slabs * kStripBlocks * head_dim;
}

// One strip of one sequence and KV head.
struct PackEstimatesTask {
  const std::byte* const* blocks;  // of 64 tokens, of the sequence
  size_t record_offset;            // of (layer, head)
  KvType kv_type;
  int head_dim;
  int halves;           // blocks of 64 tokens in a selection block: 1 or 2
  int num_far;          // far keys per 64 tokens; 0: the mean alone
  int64_t first_block;  // selection block of lane 0
  int begin;            // lanes [begin, end) hold complete blocks, the others become zero
  int end;
  float* packed;  // [PackedStripFloats]
};

// The estimates of a sequence and KV head as the rows of a tile meet them.
struct TileEstimates {
  const float* packed;  // strips from block 0 on; those that no row needs are not read
  int num_slabs;
  // Added to the logits of a slab, in units of log2: what its estimate counts for.
  float score_bias[kMaxEstimateSlabs];
  float correct_bias[kMaxEstimateSlabs];
  int block_tokens;  // of a selection block
  int64_t low;       // blocks low .. scored_end - 1 are scored; at least one
  int64_t scored_end;
  // [strips that are scored][num_slabs][rows][64]: logits, and after score the weights
  // 2^(z + score_bias - the row's top), of blocks that all rows see whole.
  float* z;
  float* row_tops;  // [rows, rounded up to 16] largest z + score_bias with such blocks
  float* energies;  // [strips that are scored][64]; lanes that are not scored hold anything
};

struct SparseAttentionOps {
  void (*pack)(const PackEstimatesTask& task);
  // Scales the queries; first of all, once per tile.
  void (*prepare)(const AttentionTask& task);
  // Writes z, row_tops and energies. Returns the largest logit that votes, in units of log2, biases
  // included.
  float (*score)(const AttentionTask& task, const TileEstimates& estimates);
  // Writes energies anew: the largest share of any row's weight that lies in each scored block.
  void (*weigh)(const AttentionTask& task, const TileEstimates& estimates);
  // Blocks of block_tokens tokens, ascending; may be none.
  void (*attend)(const AttentionTask& task, const int32_t* kept, int64_t num_kept,
                 int block_tokens);
  // Blocks that all rows see whole, ascending, at least one.
  void (*correct)(const AttentionTask& task, const TileEstimates& estimates,
                  const int32_t* corrected, int64_t num_corrected);
  // Stores to out, and m and l of every row to row_m and row_l, unless these are null. Rows that
  // saw no key give 0, and l = 0.
  void (*finish)(const AttentionTask& task, float* row_m, float* row_l);
};

// Bytes of a sparse task's scratch: AttentionScratchBytes and what each row has seen.
constexpr size_t SparseScratchBytes(int64_t max_rows, int head_dim) {
  return (AttentionScratchBytes(max_rows, head_dim) + static_cast<size_t>(max_rows) + 127) / 64 *
         64;
}

namespace portable {
extern const SparseAttentionOps kSparseAttentionOps;
}
namespace avx2 {
extern const SparseAttentionOps kSparseAttentionOps;
}
namespace avx512 {
extern const SparseAttentionOps kSparseAttentionOps;
}

}  // namespace baton
