// Stores the keys and values of a step's new tokens in the KV cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/kernel_context.h"
#include "tensor/kv_record.h"
#include "tensor/view.h"

namespace baton {

// Consecutive new tokens of one sequence.
struct KvWriteSequence {
  int64_t first_row = 0;       // in k and v
  int64_t num_rows = 0;        // may be 0
  int64_t first_position = 0;  // of the first row; the others follow it
  // Block i takes the tokens [64 i, 64 i + 64). Blocks without new tokens are not touched.
  std::byte* const* blocks = nullptr;
};

// Where a layer's new keys and values go.
// Requires: head_dim is a multiple of 16; no two sequences write into one block.
struct KvTarget {
  std::span<const KvWriteSequence> sequences;
  int num_kv_heads = 0;
  int head_dim = 0;
  size_t record_offset = 0;  // bytes from a block's start to the record of (layer, KV head 0)
  size_t head_stride = 0;    // bytes from the record of one KV head to the next
  KvType kv_type = KvType::kF16;
};

// Shapes: k, v: [num_rows, num_kv_heads * head_dim] f32.
struct KvWriteArgs {
  View2<const float> k;
  View2<const float> v;
  KvTarget target;
};

// Writes k and v into their records (tensor/kv_record.h). kF16: rounded to binary16 (nearest, ties
// to even; beyond 65,504 infinity). kQ8: 32 components of a key, or all of a value, share the scale
// max |x| / 127, and become the nearest integers of x * (127 / max |x|), ties to even; where an x
// is infinite or not a number the scale is NaN, where all are below 2^-119 it is 0, and the codes
// are 0. When the 64th token of a block is written, the record's f32 means follow: the sum of the
// stored values, tokens ascending, divided by 64. Then its far keys: the tokens of the largest
// squared distance between stored key and mean (in f32, components ascending), largest first, of
// equals the lower token. Threads: tasks are the shares below. Memory: allocates nothing.
void WriteKv(const KernelContext& context, const KvWriteArgs& args);

// The rows of one sequence that go into one block, of one KV head: they depend on no others.
struct KvWriteShare {
  const KvWriteSequence* sequence = nullptr;
  int64_t kv_head = 0;
  int64_t first_row = 0;  // in k and v
  int64_t num_rows = 0;
  int64_t first_position = 0;  // of the first row
};

int64_t NumKvWriteShares(const KvTarget& target);
// Requires: index is in [0, NumKvWriteShares(target)).
KvWriteShare KvWriteShareAt(const KvTarget& target, int64_t index);
// WriteKv, of one share.
void WriteKvShare(const KernelContext& context, const KvWriteArgs& args, const KvWriteShare& share);
// Aborts where the requirements do not hold.
void CheckKvWriteArgs(const KvWriteArgs& args);

}  // namespace baton
