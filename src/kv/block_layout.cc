#include "kv/block_layout.h"

#include <fmt/format.h>

namespace baton {
namespace {

Result<> CheckRange(const char* name, int value, int limit) {
  if (value >= 1 && value <= limit) return {};
  return Fail(ErrorCode::kInvalid,
              fmt::format("KV cache: {} must be in 1..{}, got {}", name, limit, value));
}

}  // namespace

Result<BlockLayout> BlockLayout::Make(const KvShape& shape) {
  if (auto r = CheckRange("the number of layers", shape.num_layers, kMaxLayers); !r) {
    return Forward(r);
  }
  if (auto r = CheckRange("the number of KV heads", shape.num_kv_heads, kMaxKvHeads); !r) {
    return Forward(r);
  }
  if (auto r = CheckRange("the head dimension", shape.head_dim, kMaxHeadDim); !r) {
    return Forward(r);
  }
  if (shape.head_dim % 16 != 0) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("KV cache: the head dimension must be a multiple of 16, got {}",
                            shape.head_dim));
  }
  return BlockLayout(shape);
}

}  // namespace baton
