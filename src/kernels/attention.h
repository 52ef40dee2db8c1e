// Attention of a step over keys and values in blocks: what both phases share.
//
// A step's rows belong to sequences. A row at position p sees the keys 0..p of its own sequence,
// or the last `sliding_window` of them. Prefill (attention_prefill.h) is for many rows, decode
// (attention_decode.h) for few rows with long pasts; the value of a row does not depend on which of
// the two computed it, nor on chunks, neighbours, block addresses, threads or instruction set.
//
// Life of a row, the same in both (docs/numerics.md):
//  1. its query is multiplied by scale * log2(e), or by scale / soft_cap if there is a cap;
//  2. it walks its visible keys in blocks of 64, in segments of 1,024 absolute positions, keeping
//     (o, m, l): the sum of weighted values, the running maximum, the sum of weights;
//  3. the segments merge in ascending order; out = o / l.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention_limits.h"
#include "tensor/kv_record.h"
#include "tensor/view.h"

namespace baton {

// Requires: head_dim is a multiple of 16 up to kMaxHeadDim; num_heads is a multiple of
// num_kv_heads.
struct AttentionShape {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;

  int GroupSize() const { return num_heads / num_kv_heads; }
};

// Consecutive rows of one sequence in a step. Prepared once per step, used by every layer.
struct AttentionSequence {
  int64_t first_row = 0;       // in q and out
  int64_t num_rows = 0;        // may be 0
  int64_t first_position = 0;  // of the first row; the others follow it
  // Block i holds the tokens [64 i, 64 i + 64) of the sequence, for all layers and heads. Blocks
  // that no row can see (all before the sliding window) are not read.
  const std::byte* const* blocks = nullptr;
};

// What differs from layer to layer.
struct AttentionLayer {
  float scale = 0.0f;          // of q . k
  float soft_cap = 0.0f;       // s becomes soft_cap * tanh(s / soft_cap); 0: no cap
  int64_t sliding_window = 0;  // keys a row sees, itself included; 0: all
  size_t record_offset = 0;    // bytes from a block's start to the record of (layer, KV head 0)
  size_t head_stride = 0;      // bytes from the record of one KV head to the next
  KvType kv_type = KvType::kF16;
};

// Shapes: q, out: [num_rows, num_heads * head_dim] f32.
// Requires: the keys and values of all visible tokens, the rows' own included, are written
// (kv_write.h); workspace is aligned to 64 bytes and as large as the phase's ...WorkspaceBytes
// says.
struct AttentionArgs {
  View2<const float> q;
  View2<float> out;
  std::span<const AttentionSequence> sequences;
  AttentionShape shape;
  AttentionLayer layer;
  std::span<std::byte> workspace;
};

}  // namespace baton
