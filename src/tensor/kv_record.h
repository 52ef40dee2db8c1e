// The record of one KV block for one layer and one KV head: 64 tokens of keys and values.
//
// KvType::kF16:
//   K   [head_dim][64] binary16: one slab; 16 neighbouring keys of one component are one vector
//   V   ceil(head_dim / 64) slabs [64 tokens][columns] binary16, columns = 64 but in the last slab
// KvType::kQ8, codes times scales:
//   K   [head_dim / 4][64][4] u8, codes + 128: four components of 16 neighbouring keys are one
//   vector V   slabs [64 / 4 tokens][columns][4 tokens] s8, columns as above K's scales
//   [ceil(head_dim / 32)][64] f32, one for 32 components of a token V's scales   [64] f32, one for
//   a token
// Both, behind it:
//   statistics, written once when the block fills: mean of K [head_dim] f32, mean of V [head_dim]
//   f32, far keys [7] u8 (the tokens whose keys lie farthest from the mean, farthest first), zeros
//   up to a multiple of 64
//
// Every loop of the attention kernels walks this memory linearly. kv/ composes these records into
// blocks of all layers and heads; kernels/ reads and writes them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton {

inline constexpr int kBlockTokens = 64;

// The largest head_dim that kernels compute with.
inline constexpr int kMaxHeadDim = 512;

// How a cache holds keys and values. A policy: it changes results, and what one type holds another
// cannot read.
enum class KvType : uint8_t {
  kF16,  // binary16
  kQ8,   // 8-bit codes: about half the bytes, and attention in integers
};

// "f16", "q8": as --kv-type takes them.
constexpr const char* KvTypeName(KvType type) {
  return type == KvType::kQ8 ? "q8" : "f16";
}

// Components of a key that share a scale in KvType::kQ8.
inline constexpr int kKeyScaleGroup = 32;

// Raise when the layout of the record or of its statistics changes; saved and sent blocks carry it.
inline constexpr uint32_t kKvRecordVersion = 2;

// Far keys that a record keeps.
inline constexpr int kMaxFarKeys = 7;
// Bytes of a record behind its means: the far keys, rounded up.
inline constexpr int kFarKeyBytes = 64;
static_assert(kMaxFarKeys <= kFarKeyBytes);

// Offsets into a record. Units: binary16 elements for K and V of kF16, bytes where the name says
// so. Requires: head_dim is a positive multiple of 16.
struct KvRecord {
  int head_dim = 0;
  KvType type = KvType::kF16;

  // kF16. Element of key component c of token t, from the start of the record.
  size_t KeyIndex(int c, int t) const {
    return static_cast<size_t>(c) * kBlockTokens + static_cast<size_t>(t);
  }
  // kF16. Element of value component c of token t, from the start of the record.
  size_t ValueIndex(int c, int t) const {
    const int slab = c / kBlockTokens;
    return static_cast<size_t>(head_dim) * kBlockTokens +
           static_cast<size_t>(slab) * kBlockTokens * kBlockTokens +
           static_cast<size_t>(t) * static_cast<size_t>(SlabColumns(slab)) +
           static_cast<size_t>(c - slab * kBlockTokens);
  }
  // Columns of V slab `slab`: 64, or what is left in the last one.
  int SlabColumns(int slab) const {
    const int left = head_dim - slab * kBlockTokens;
    return left < kBlockTokens ? left : kBlockTokens;
  }
  // kQ8. The code of key component c of token t, in bytes from the start of the record.
  size_t KeyCodeBytes(int c, int t) const {
    return (static_cast<size_t>(c / 4) * kBlockTokens + static_cast<size_t>(t)) * 4 +
           static_cast<size_t>(c % 4);
  }
  // kQ8. The code of value component c of token t.
  size_t ValueCodeBytes(int c, int t) const {
    const int slab = c / kBlockTokens;
    const int line = t / 4 * SlabColumns(slab) + c - slab * kBlockTokens;
    return (static_cast<size_t>(head_dim) + static_cast<size_t>(slab) * kBlockTokens) *
               kBlockTokens +
           static_cast<size_t>(line) * 4 + static_cast<size_t>(t % 4);
  }
  int KeyScaleGroups() const { return (head_dim + kKeyScaleGroup - 1) / kKeyScaleGroup; }
  // kQ8. The scale of key components 32 group .. of token t, f32.
  size_t KeyScaleBytes(int group, int t) const {
    return static_cast<size_t>(head_dim) * kBlockTokens * 2 +
           static_cast<size_t>(group * kBlockTokens + t) * sizeof(float);
  }
  // kQ8. The scale of the values of token t, f32.
  size_t ValueScaleBytes(int t) const { return KeyScaleBytes(KeyScaleGroups(), t); }
  size_t StatisticsOffsetBytes() const {
    if (type == KvType::kQ8) return ValueScaleBytes(kBlockTokens);
    return static_cast<size_t>(head_dim) * kBlockTokens * 2 * sizeof(uint16_t);
  }
  // Of the far keys, one byte each, from the start of the record.
  size_t FarKeysOffsetBytes() const {
    return StatisticsOffsetBytes() + static_cast<size_t>(head_dim) * 2 * sizeof(float);
  }
  size_t StatisticsBytes() const {
    return static_cast<size_t>(head_dim) * 2 * sizeof(float) + size_t{kFarKeyBytes};
  }
  // A multiple of 64, so that every record of a block is aligned to a cache line.
  size_t Bytes() const { return StatisticsOffsetBytes() + StatisticsBytes(); }
};

}  // namespace baton
