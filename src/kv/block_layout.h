// Where everything is inside a KV block: 64 tokens of all layers and KV heads of a model.
//
// A block is a sequence of records (tensor/kv_record.h), layers outermost, KV heads within a layer.
// Every record, and with it every part of one, begins on a cache line.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/result.h"
#include "tensor/kv_record.h"

namespace baton {

// What of a model decides the size of its cache.
struct KvShape {
  int num_layers = 0;
  int num_kv_heads = 0;  // the same in all layers
  int head_dim = 0;
  KvType type = KvType::kF16;

  friend bool operator==(const KvShape&, const KvShape&) = default;
};

// Sizes and offsets of a block. Units: bytes. Plain data; cheap to copy.
class BlockLayout {
 public:
  static constexpr int kMaxLayers = 1024;
  static constexpr int kMaxKvHeads = 1024;
  static constexpr int kMaxHeadDim = 1024;
  static_assert(kMaxHeadDim >= baton::kMaxHeadDim, "a block holds what kernels compute with");

  // Errors: invalid if a number is below 1 or above its limit, or head_dim is not a multiple of 16.
  static Result<BlockLayout> Make(const KvShape& shape);

  const KvShape& shape() const { return shape_; }
  KvRecord record() const { return {.head_dim = shape_.head_dim, .type = shape_.type}; }

  // From the record of one KV head to the next of the same layer.
  size_t head_stride() const { return record().Bytes(); }
  size_t layer_stride() const { return head_stride() * static_cast<size_t>(shape_.num_kv_heads); }
  size_t block_bytes() const { return layer_stride() * static_cast<size_t>(shape_.num_layers); }

  // From the block's start to the record of a layer and KV head. Requires: both exist.
  size_t RecordOffset(int layer, int kv_head) const {
    CHECK(layer >= 0 && layer < shape_.num_layers);
    CHECK(kv_head >= 0 && kv_head < shape_.num_kv_heads);
    return layer_stride() * static_cast<size_t>(layer) +
           head_stride() * static_cast<size_t>(kv_head);
  }

  // From the block's start to the statistics of a layer and KV head: f32 means of K [head_dim],
  // then of V [head_dim], then the far keys. Requires: both exist.
  size_t StatisticsOffset(int layer, int kv_head) const {
    return RecordOffset(layer, kv_head) + record().StatisticsOffsetBytes();
  }

  friend bool operator==(const BlockLayout&, const BlockLayout&) = default;

 private:
  explicit BlockLayout(const KvShape& shape) : shape_(shape) {}
  KvShape shape_;
};

// Blocks that hold num_tokens tokens. Requires: num_tokens >= 0.
constexpr int64_t NumBlocksFor(int64_t num_tokens) {
  return num_tokens / kBlockTokens + (num_tokens % kBlockTokens != 0 ? 1 : 0);
}

}  // namespace baton
