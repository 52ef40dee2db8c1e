// Writing new keys and values into a KV record, compiled once per instruction set.
#include <cstdint>

#include "kernels/f32x16.h"
#include "kernels/kv_write_ops.h"
#include "kernels/unroll.h"
#include "tensor/kv_record.h"

namespace baton::BATON_ISA {
namespace {

// Columns of the slab that holds value component c, and where its row for token 0 starts.
struct SlabPosition {
  uint16_t* first;
  int columns;
};

BATON_INLINE SlabPosition ValueSlab(uint16_t* record, int head_dim, int c) {
  const int slab_begin = c / kBlockTokens * kBlockTokens;
  const int left = head_dim - slab_begin;
  const int columns = left < kBlockTokens ? left : kBlockTokens;
  return {record + int64_t{kBlockTokens} * (head_dim + slab_begin) + (c - slab_begin), columns};
}

// 16 components of the keys of a block's tokens, token by token.
using KeysByToken = uint16_t[kBlockTokens][kLanes];

// Means of 16 components from c on: adds tokens in ascending order from +0, and divides by their
// number, a power of two.
BATON_INLINE void StoreMeans(uint16_t* record, int head_dim, int c, const KeysByToken& keys) {
  const f32x16 inverse = Set1(1.0f / kBlockTokens);
  float* means = reinterpret_cast<float*>(record + int64_t{2} * kBlockTokens * head_dim);
  const SlabPosition values = ValueSlab(record, head_dim, c);
  f32x16 key_sum = Zero();
  f32x16 value_sum = Zero();
  for (int t = 0; t < kBlockTokens; ++t) {
    key_sum = Add(key_sum, LoadHalf(keys[t]));
    value_sum = Add(value_sum, LoadHalf(values.first + t * values.columns));
  }
  Store(means + c, Mul(key_sum, inverse));
  Store(means + head_dim + c, Mul(value_sum, inverse));
}

// Squared distances of the keys from their mean: components ascending, one chain per token.
BATON_INLINE void FindDistances(const uint16_t* record, int head_dim, float* distances) {
  constexpr int kVectors = kBlockTokens / kLanes;
  const float* means =
      reinterpret_cast<const float*>(record + int64_t{2} * kBlockTokens * head_dim);
  f32x16 sum[kVectors];
  BATON_UNROLL
  for (int v = 0; v < kVectors; ++v) sum[v] = Zero();
  for (int c = 0; c < head_dim; ++c) {
    const f32x16 mean = Set1(means[c]);
    BATON_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      const f32x16 off = Sub(LoadHalf(record + c * kBlockTokens + v * kLanes), mean);
      sum[v] = Fma(off, off, sum[v]);
    }
  }
  BATON_UNROLL
  for (int v = 0; v < kVectors; ++v) Store(distances + v * kLanes, sum[v]);
}

// The tokens of the largest distances, largest first, of equals the lower one; zeros behind them. A
// distance that is not a number is taken when no other is left.
BATON_INLINE void StoreFarKeys(uint16_t* record, int head_dim) {
  float distances[kBlockTokens];
  FindDistances(record, head_dim, distances);
  uint8_t* far_keys =
      reinterpret_cast<uint8_t*>(record + int64_t{2} * kBlockTokens * head_dim + 4 * head_dim);
  for (int i = 0; i < kFarKeyBytes; ++i) far_keys[i] = 0;
  bool is_taken[kBlockTokens] = {};
  for (int i = 0; i < kMaxFarKeys; ++i) {
    int best = -1;
    float largest = -1.0f;
    for (int t = 0; t < kBlockTokens; ++t) {
      if (is_taken[t] || !(distances[t] > largest)) continue;
      best = t;
      largest = distances[t];
    }
    for (int t = 0; best < 0; ++t) {
      if (!is_taken[t]) best = t;
    }
    is_taken[best] = true;
    far_keys[i] = static_cast<uint8_t>(best);
  }
}

void WriteKvRows(const KvWriteTask& task) {
  const bool completes = task.first_token + task.num_rows == kBlockTokens;
  for (int c = 0; c < task.head_dim; c += kLanes) {
    KeysByToken by_token;
    const SlabPosition values = ValueSlab(task.record, task.head_dim, c);
    uint16_t* keys = task.record + c * kBlockTokens;
    for (int r = 0; r < task.num_rows; ++r) {
      StoreHalf(by_token[task.first_token + r], Load(task.k + r * task.k_stride + c));
      StoreHalf(values.first + (task.first_token + r) * values.columns,
                Load(task.v + r * task.v_stride + c));
    }
    for (int i = 0; i < kLanes; ++i) {
      uint16_t* to = keys + i * kBlockTokens;
      for (int t = task.first_token; t < task.first_token + task.num_rows; ++t) {
        to[t] = by_token[t][i];
      }
      if (!completes) continue;
      for (int t = 0; t < task.first_token; ++t) by_token[t][i] = to[t];
    }
    if (completes) StoreMeans(task.record, task.head_dim, c, by_token);
  }
  if (completes) StoreFarKeys(task.record, task.head_dim);
}

}  // namespace

extern const KvWriteOps kKvWriteOps = {.write = WriteKvRows};

}  // namespace baton::BATON_ISA
