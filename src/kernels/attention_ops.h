// The functions of one instruction set behind attention_prefill.h and attention_decode.h: raw
// pointers, no checks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention_limits.h"

namespace baton {

// Consecutive rows of one sequence and one KV head, with all heads of its group: the row index
// inside a task is position * group + head.
struct AttentionTask {
  const float* q;    // first position, first head of the group
  float* out;        // likewise
  int64_t q_stride;  // floats from one position to the next
  int64_t out_stride;
  int num_positions;
  int group;
  int head_dim;
  float q_factor;       // scale * log2(e), or scale / soft_cap
  float soft_cap_log2;  // soft_cap * log2(e); 0: none
  int64_t first_position;
  int64_t window;  // keys a row sees, itself included; at least 1
  const std::byte* const* blocks;
  size_t record_offset;  // of (layer, head)
  KvType kv_type;        // of the blocks
  bool widens_blocks;    // KernelTable::widens_blocks
  std::byte* scratch;    // of AttentionScratchBytes, aligned to 64
};

// The result of one segment for a task's rows, between decode's two loops.
struct AttentionPartial {
  float* o;  // [rows][head_dim]
  float* m;  // [rows]
  float* l;  // [rows]
};

struct AttentionOps {
  // All segments of the task's rows, merged, divided, stored to out.
  void (*attend)(const AttentionTask& task);
  // One segment only; rows that see nothing of it get m, l and o untouched.
  void (*attend_segment)(const AttentionTask& task, int64_t segment,
                         const AttentionPartial& partial);
  // Merges the partials of segments first, first + 1, ... (num_segments of them, partial_stride
  // floats apart in each array) and stores to out.
  void (*merge_segments)(const AttentionTask& task, int64_t first_segment, int64_t num_segments,
                         const AttentionPartial& first, int64_t partial_stride);
};

// Bytes of a code of a query or a weight at most, for KvType::kQ8.
inline constexpr int kMaxQ8CodeBytes = 2;

// Bytes of scratch for a task of at most max_rows rows (positions * group).
constexpr size_t AttentionScratchBytes(int64_t max_rows, int head_dim) {
  const size_t rows = static_cast<size_t>(max_rows);
  const size_t dim = static_cast<size_t>(head_dim);
  const size_t groups = (dim + kKeyScaleGroup - 1) / kKeyScaleGroup;
  // Per row: packed query, running and merged o; lanes of l; m, merged m and l, rounded up.
  const size_t row_floats = 3 * dim + 16 + 16;
  // The logits of a group of rows, and one block's keys and values in f32.
  const size_t block_floats = size_t{kBlockTokens} * (kGroupRows + 2 * dim);
  // Per row and group of components its codes, their scale and start; a group's weights as codes.
  const size_t code_bytes =
      rows * groups * (size_t{kKeyScaleGroup} * kMaxQ8CodeBytes + sizeof(float) + sizeof(int32_t)) +
      size_t{kGroupRows} * kBlockTokens * kMaxQ8CodeBytes;
  return (rows * row_floats + block_floats) * sizeof(float) + code_bytes + 8 * 64;
}

namespace portable {
extern const AttentionOps kAttentionOps;
}
namespace avx2 {
extern const AttentionOps kAttentionOps;
}
namespace avx512 {
extern const AttentionOps kAttentionOps;
}

}  // namespace baton
