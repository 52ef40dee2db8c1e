// Writing new keys and values into a KV record, compiled once per instruction set.
#include <cstdint>

#include "kernels/f32x16.h"
#include "kernels/kv_write_ops.h"
#include "kernels/q8_record.inl.h"
#include "kernels/quantize.inl.h"
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

// The tokens of the largest distances [64], largest first, of equals the lower one; zeros behind
// them. A distance that is not a number is taken when no other is left.
BATON_INLINE void StoreFarKeys(const float* distances, uint8_t* far_keys) {
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

void WriteF16Rows(const KvWriteTask& task) {
  uint16_t* record = reinterpret_cast<uint16_t*>(task.record);
  const bool completes = task.first_token + task.num_rows == kBlockTokens;
  for (int c = 0; c < task.head_dim; c += kLanes) {
    KeysByToken by_token;
    const SlabPosition values = ValueSlab(record, task.head_dim, c);
    uint16_t* keys = record + c * kBlockTokens;
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
    if (completes) StoreMeans(record, task.head_dim, c, by_token);
  }
  if (!completes) return;
  float distances[kBlockTokens];
  FindDistances(record, task.head_dim, distances);
  StoreFarKeys(distances,
               reinterpret_cast<uint8_t*>(record + int64_t{2} * kBlockTokens * task.head_dim +
                                          4 * task.head_dim));
}

// Quantizes one token's key and value and puts them into their places.
BATON_INLINE void StoreQ8Token(const float* k, const float* v, int head_dim, int token,
                               const WritableQ8Record& record) {
  uint8_t codes[2 * kLanes];
  for (int c = 0; c < head_dim; c += kKeyScaleGroup) {
    const int count = head_dim - c < kKeyScaleGroup ? head_dim - c : kKeyScaleGroup;
    const f32x16 second = count > kLanes ? Load(k + c + kLanes) : Zero();
    const BlockCodes block = Quantize<Precision::kFast>(Load(k + c), second);
    StoreBytes32(codes, AddInt(block.first, SetInt1(128)), AddInt(block.second, SetInt1(128)));
    for (int i = 0; i < count; i += 4) {
      __builtin_memcpy(record.keys + (c + i) / 4 * kKeyLineBytes + 4 * token, codes + i, 4);
    }
    record.key_scales[c / kKeyScaleGroup * kBlockTokens + token] = block.scale;
  }
  i32x16 top_bits = SetInt1(0);
  for (int c = 0; c < head_dim; c += kLanes) {
    top_bits = MaxInt(top_bits, AsInt(Abs(Load(v + c))));
  }
  const CodeScale scale = CodeScaleOf<Precision::kFast>(ReduceMaxInt(top_bits));
  record.value_scales[token] = scale.scale;
  for (int c = 0; c < head_dim; c += 2 * kLanes) {
    const int count = head_dim - c < 2 * kLanes ? kLanes : 2 * kLanes;
    const f32x16 second = count > kLanes ? Load(v + c + kLanes) : Zero();
    StoreBytes32(codes, scale.CodesOf(Load(v + c)), scale.CodesOf(second));
    for (int i = 0; i < count; i += kLanes) {
      uint8_t* line = record.ValueLine(head_dim, c + i, token / 4) + token % 4;
      for (int j = 0; j < kLanes; ++j) line[4 * j] = codes[i + j];
    }
  }
}

// The statistics of a full block: means as StoreMeans, distances as FindDistances.
BATON_INLINE void StoreQ8Statistics(const WritableQ8Record& record, int head_dim) {
  const Q8Record stored = {.keys = record.keys,
                           .values = record.values,
                           .key_scales = record.key_scales,
                           .value_scales = record.value_scales,
                           .means = record.means};
  const f32x16 inverse = Set1(1.0f / kBlockTokens);
  float distances[kBlockTokens] = {};
  for (int c = 0; c < head_dim; c += kLanes) {
    float keys[kLanes][kBlockTokens];
    f32x16 key_sum = Zero();
    f32x16 value_sum = Zero();
    for (int t = 0; t < kBlockTokens; ++t) {
      float key[kLanes];
      Store(key, LoadQ8Key(stored, c, t));
      for (int i = 0; i < kLanes; ++i) keys[i][t] = key[i];
      key_sum = Add(key_sum, Load(key));
      value_sum = Add(value_sum, LoadQ8Value(stored, head_dim, c, t));
    }
    Store(record.means + c, Mul(key_sum, inverse));
    Store(record.means + head_dim + c, Mul(value_sum, inverse));
    for (int i = 0; i < kLanes; ++i) {
      const f32x16 mean = Set1(record.means[c + i]);
      for (int t = 0; t < kBlockTokens; t += kLanes) {
        const f32x16 off = Sub(Load(keys[i] + t), mean);
        Store(distances + t, Fma(off, off, Load(distances + t)));
      }
    }
  }
  StoreFarKeys(distances, reinterpret_cast<uint8_t*>(record.means + 2 * head_dim));
}

void WriteQ8Rows(const KvWriteTask& task) {
  const WritableQ8Record record =
      Q8PartsOf<uint8_t, float>(reinterpret_cast<uint8_t*>(task.record), task.head_dim);
  for (int r = 0; r < task.num_rows; ++r) {
    StoreQ8Token(task.k + r * task.k_stride, task.v + r * task.v_stride, task.head_dim,
                 task.first_token + r, record);
  }
  if (task.first_token + task.num_rows == kBlockTokens) StoreQ8Statistics(record, task.head_dim);
}

}  // namespace

extern const KvWriteOps kKvWriteOps = {.write_f16 = WriteF16Rows, .write_q8 = WriteQ8Rows};

}  // namespace baton::BATON_ISA
