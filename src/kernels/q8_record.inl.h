// A record of KvType::kQ8 (tensor/kv_record.h) as the units of an instruction set see it.
#pragma once

#include <cstdint>

#include "kernels/f32x16.h"
#include "kernels/i8dot.inl.h"
#include "tensor/kv_record.h"

namespace baton::BATON_ISA {
namespace {

// From the codes of four components to those of the next four.
inline constexpr int kKeyLineBytes = 4 * kBlockTokens;

BATON_INLINE int KeyScaleGroupsOf(int head_dim) {
  return (head_dim + kKeyScaleGroup - 1) / kKeyScaleGroup;
}

template <typename Byte, typename Float>
struct Q8Parts {
  Byte* keys;
  Byte* values;  // codes of two's complement
  Float* key_scales;
  Float* value_scales;
  Float* means;  // of K, then of V

  // Codes of value components c to c + 15 (c a multiple of 16) of tokens 4 quad to 4 quad + 3.
  BATON_INLINE Byte* ValueLine(int head_dim, int c, int quad) const {
    const int slab_begin = c / kBlockTokens * kBlockTokens;
    const int left = head_dim - slab_begin;
    const int columns = left < kBlockTokens ? left : kBlockTokens;
    return values + int64_t{slab_begin} * kBlockTokens + 4 * (quad * columns + (c - slab_begin));
  }
};
using Q8Record = Q8Parts<const uint8_t, const float>;
using WritableQ8Record = Q8Parts<uint8_t, float>;

template <typename Byte, typename Float>
BATON_INLINE Q8Parts<Byte, Float> Q8PartsOf(Byte* record, int head_dim) {
  Q8Parts<Byte, Float> parts;
  parts.keys = record;
  parts.values = record + int64_t{kBlockTokens} * head_dim;
  parts.key_scales = reinterpret_cast<Float*>(
      reinterpret_cast<uintptr_t>(record + int64_t{2} * kBlockTokens * head_dim));
  parts.value_scales = parts.key_scales + KeyScaleGroupsOf(head_dim) * kBlockTokens;
  parts.means = parts.value_scales + kBlockTokens;
  return parts;
}
BATON_INLINE Q8Record Q8RecordAt(const void* record, int head_dim) {
  return Q8PartsOf<const uint8_t, const float>(static_cast<const uint8_t*>(record), head_dim);
}

// 16 components of a token's key, from component c on, a multiple of 16.
BATON_INLINE f32x16 LoadQ8Key(const Q8Record& record, int c, int token) {
  uint8_t codes[kLanes];
  for (int i = 0; i < kLanes; i += 4) {
    __builtin_memcpy(codes + i, record.keys + (c + i) / 4 * kKeyLineBytes + 4 * token, 4);
  }
  const float scale = record.key_scales[c / kKeyScaleGroup * kBlockTokens + token];
  return Mul(ToFloat(AddInt(LoadUint8(codes), SetInt1(-128))), Set1(scale));
}

// 16 components of a token's value, from component c on, a multiple of 16.
BATON_INLINE f32x16 LoadQ8Value(const Q8Record& record, int head_dim, int c, int token) {
  const uint8_t* line = record.ValueLine(head_dim, c, token / 4) + token % 4;
  uint8_t codes[kLanes];
  for (int i = 0; i < kLanes; ++i) codes[i] = line[4 * i];
  return Mul(ToFloat(LoadInt8(codes)), Set1(record.value_scales[token]));
}

}  // namespace
}  // namespace baton::BATON_ISA
