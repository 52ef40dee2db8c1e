// The record of one KV block for one layer and one KV head: 64 tokens of keys and values.
//
//   K   [head_dim][64] binary16: one slab; 16 neighbouring keys of one component are one vector
//   V   ceil(head_dim / 64) slabs [64 tokens][columns] binary16, columns = 64 but in the last slab
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

// Raise when the layout of the record or of its statistics changes; saved and sent blocks carry it.
inline constexpr uint32_t kKvRecordVersion = 2;

// Far keys that a record keeps.
inline constexpr int kMaxFarKeys = 7;
// Bytes of a record behind its means: the far keys, rounded up.
inline constexpr int kFarKeyBytes = 64;
static_assert(kMaxFarKeys <= kFarKeyBytes);

// Offsets into a record. Units: binary16 elements for K and V, bytes where the name says so.
// Requires: head_dim is a positive multiple of 16.
struct KvRecord {
  int head_dim = 0;

  // Element of key component c of token t, from the start of the record.
  size_t KeyIndex(int c, int t) const {
    return static_cast<size_t>(c) * kBlockTokens + static_cast<size_t>(t);
  }
  // Element of value component c of token t, from the start of the record.
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
  size_t StatisticsOffsetBytes() const {
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
