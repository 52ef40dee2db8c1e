// One panel of 16 output rows times one tile of input rows, for every weight type and instruction
// set. Included by *_isa.cc files only.
//
// A block of 32 inputs is expanded to codes and scales once and meets all rows of the tile: from
// one row, where memory is the limit, to 16, where arithmetic is. Each (output row, row) has one
// f32 accumulator and takes its blocks in ascending order; formulas: docs/numerics.md.
#pragma once

#include "kernels/f32x16.h"
#include "kernels/i8dot.inl.h"
#include "kernels/linear_ops.h"
#include "kernels/panel.h"
#include "kernels/precision.h"

namespace baton::BATON_ISA {

// Together: the rows whose integer sums are under way at once. vpdpbusd takes 5 cycles and two
// start in each, so AVX-512 wants more than 10 chains: with 4 or 8 rows a Xeon (Sapphire Rapids)
// reaches half of its vpdpbusd peak, with 16 rows 63 %; under kExact a row is two chains. There all
// loops over a tile's rows are unrolled; with 16 registers or none, they are loops and the
// accumulators live in memory.
//
// kRowsAskedNear, HardlyComputes: of Prefetch, below.
#if defined(BATON_ISA_AVX512)
#define BATON_UNROLL_TILE BATON_UNROLL
inline constexpr bool kTileIsConstant = true;
constexpr int Together(Precision precision) {
  return precision == Precision::kFast ? 16 : 8;
}
inline constexpr int kFloatTogether = 16;
inline constexpr int kRowsAskedNear = 4;
constexpr bool HardlyComputes(PanelType type) {
  return type == PanelType::kQ8_0 || type == PanelType::kF32;
}
#elif defined(BATON_ISA_AVX2)
#define BATON_UNROLL_TILE
inline constexpr bool kTileIsConstant = false;
constexpr int Together(Precision) {
  return 4;
}
inline constexpr int kFloatTogether = 4;
inline constexpr int kRowsAskedNear = 1;
constexpr bool HardlyComputes(PanelType) {
  return false;
}
#else
#define BATON_UNROLL_TILE
inline constexpr bool kTileIsConstant = false;
constexpr int Together(Precision) {
  return 1;
}
inline constexpr int kFloatTogether = 1;
inline constexpr int kRowsAskedNear = 1;
constexpr bool HardlyComputes(PanelType) {
  return false;
}
#endif
constexpr int Smaller(int a, int b) {
  return a < b ? a : b;
}

// How far ahead of its use the stream of weights is asked for: from memory, and from the second
// cache. The hardware's own prefetch stops at page borders and starts late.
inline constexpr int64_t kFarBytes = 8192;
inline constexpr int64_t kNearBytes = 1024;

// Asks for the weights that kRows rows will read. The nearest cache has few places for lines that
// are missing, and one that comes from memory holds its place for long. So lines go to the second
// cache first, and where rows compute too little for loads to wait there, from it to the nearest
// shortly before their use. Two cases are faster with one long way to the nearest: 16 rows, which
// compute for so long that all is there in time, and one row of what hardly computes at all.
template <PanelType kType, int kBytes, int kRows>
BATON_INLINE void Prefetch(const uint8_t* stream) {
  constexpr bool kAtOnce = kRows == kLinearTileRows || (kRows == 1 && HardlyComputes(kType));
  BATON_UNROLL
  for (int i = 0; i < kBytes; i += kLineBytes) {
    __builtin_prefetch(stream + kFarBytes + i, 0, kAtOnce ? 3 : 2);
    if constexpr (!kAtOnce && kRows <= kRowsAskedNear) {
      __builtin_prefetch(stream + kNearBytes + i, 0, 3);
    }
  }
}

// The 8 groups of 4 codes of block `block` of a record.
template <PanelType kType, int kGroup>
BATON_INLINE u8x64 ExpandGroup(const uint8_t* record, int64_t block) {
  constexpr PanelFormat kFormat = FormatOf(kType);
  constexpr int kLow = kFormat.low_bits;
  constexpr int kHigh = kFormat.high_bits;
  const uint8_t* low = record + block * (kLow * kLineBytes);
  u8x64 codes = LoadLine(low + kGroup * kLow / 8 * kLineBytes);
  if constexpr (kLow < 8) {
    codes = And(ShiftBits<kGroup * kLow % 8>(codes), (1 << kLow) - 1);
  }
  if constexpr (kHigh > 0) {
    const uint8_t* high = record + kFormat.low_bytes() + block * (kHigh * kLineBytes);
    const u8x64 bits = LoadLine(high + kGroup * kHigh / 8 * kLineBytes);
    codes = OrMasked(codes, ShiftBits<kGroup * kHigh % 8 - kLow>(bits), ((1 << kHigh) - 1) << kLow);
  }
  return codes;
}

template <PanelType kType, Precision kPrecision>
BATON_INLINE void ExpandCodes(const uint8_t* record, int64_t block, CodeBlock& codes) {
  codes.group[0] = ExpandGroup<kType, 0>(record, block);
  codes.group[1] = ExpandGroup<kType, 1>(record, block);
  codes.group[2] = ExpandGroup<kType, 2>(record, block);
  codes.group[3] = ExpandGroup<kType, 3>(record, block);
  codes.group[4] = ExpandGroup<kType, 4>(record, block);
  codes.group[5] = ExpandGroup<kType, 5>(record, block);
  codes.group[6] = ExpandGroup<kType, 6>(record, block);
  codes.group[7] = ExpandGroup<kType, 7>(record, block);
  FinishCodes<kType, kPrecision>(codes);
}

BATON_INLINE f32x16 LoadHalfBytes(const uint8_t* p) {
  return LoadHalf(reinterpret_cast<const uint16_t*>(p));
}

// The scale and the min (0 in types without) of half `kHalf` of a block.
struct BlockScale {
  f32x16 d;
  f32x16 m;
};
template <PanelType kType, int kHalf>
BATON_INLINE BlockScale LoadScale(const uint8_t* record, int64_t block) {
  constexpr PanelFormat kFormat = FormatOf(kType);
  const uint8_t* scales = record + kFormat.code_bytes();
  const uint8_t* mins = record + kFormat.min_offset();
  BlockScale scale = {Zero(), Zero()};
  if constexpr (!kFormat.is_k) {
    scale.d = LoadHalfBytes(scales + block * 32);
    if constexpr (kFormat.has_min) scale.m = LoadHalfBytes(mins + block * 32);
  } else {
    const uint8_t* super = record + kFormat.super_offset();
    const int64_t at = (block * kFormat.halves + kHalf) * kPanelRows;
    const i32x16 sub = kFormat.signed_sub_scales ? LoadInt8(scales + at) : LoadUint8(scales + at);
    scale.d = Mul(LoadHalfBytes(super), ToFloat(sub));
    if constexpr (kFormat.has_min) {
      const f32x16 super_min = Mul(LoadHalfBytes(super + 32), Set1(-1.0f));
      scale.m = Mul(super_min, ToFloat(LoadUint8(mins + at)));
    }
  }
  return scale;
}

// One half (or the whole) of a block for kRows rows.
template <PanelType kType, Precision kPrecision, int kRows, int kHalf>
BATON_INLINE void AddHalf(const CodeBlock& codes, const BlockScale& scale,
                          const uint8_t* activations, const float* scales, const uint32_t* side,
                          f32x16* sums) {
  constexpr PanelFormat kFormat = FormatOf(kType);
  constexpr int kCount = kCodeGroups / kFormat.halves;
  constexpr int kStride = SideValues(kFormat.side);
  i32x16 integers[kRows];
  Dot<kType, kPrecision, kRows, kHalf * kCount, kCount>(codes, activations, side + kHalf, kStride,
                                                        integers);
  BATON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    sums[r] = Fma(Mul(scale.d, Set1(scales[r])), ToFloat(integers[r]), sums[r]);
    if constexpr (kFormat.has_min) {
      const float x = __builtin_bit_cast(float, LoadWord(side + r * kStride + kHalf));
      sums[r] = Fma(scale.m, Set1(x), sums[r]);
    }
  }
}

BATON_INLINE void StoreSums(const LinearTileArgs& args, int t, f32x16 sums) {
  if (t >= args.num_rows) return;
  float* out = args.out + t * args.out_stride;
  if (args.num_outputs == kPanelRows) {
    Store(out, sums);
  } else {
    StorePartial(out, sums, args.num_outputs);
  }
}

// Asks for the places of the results, so that the stores at the end need not wait for them: each
// row's results are a line of their own.
template <int kRows>
BATON_INLINE void PrefetchOutputs(const LinearTileArgs& args) {
  BATON_UNROLL
  for (int t = 0; t < kRows; ++t) {
    if (t < args.num_rows) __builtin_prefetch(args.out + t * args.out_stride, 1, 3);
  }
}

// kTile: the rows of the tile, or 0 where they are a variable, a multiple of kRows.
template <PanelType kType, Precision kPrecision, int kRows, int kTile>
void QuantizedTile(const LinearTileArgs& args) {
  constexpr PanelFormat kFormat = FormatOf(kType);
  constexpr int kCodes = ActivationBytes(kPrecision);
  constexpr int kSides = SideValues(kFormat.side);
  constexpr int kBlockBytes = kFormat.record_bytes() / kFormat.blocks();
  const int tile = kTile != 0 ? kTile : args.tile_rows;

  f32x16 sums[kTile != 0 ? kTile : kLinearTileRows];
  BATON_UNROLL_TILE
  for (int t = 0; t < tile; ++t) sums[t] = Zero();

  if constexpr (kTile == kLinearTileRows) PrefetchOutputs<kTile>(args);

  const int64_t num_blocks = args.num_inputs / kInputBlock;
  for (int64_t b = 0; b < num_blocks; ++b) {
    const uint8_t* record = args.panel + b / kFormat.blocks() * kFormat.record_bytes();
    const int64_t block = b % kFormat.blocks();
    Prefetch<kType, kBlockBytes, kRows>(record + block * kBlockBytes);

    CodeBlock codes;
    ExpandCodes<kType, kPrecision>(record, block, codes);
    const BlockScale first = LoadScale<kType, 0>(record, block);
    BlockScale second = first;
    if constexpr (kFormat.halves == 2) second = LoadScale<kType, 1>(record, block);

    const uint8_t* activations = args.codes + b * (tile * kCodes);
    const float* scales = args.scales + b * tile;
    const uint32_t* side = args.side + b * (tile * kSides);
    BATON_UNROLL_TILE
    for (int t = 0; t < tile; t += kRows) {
      AddHalf<kType, kPrecision, kRows, 0>(codes, first, activations + t * kCodes, scales + t,
                                           side + t * kSides, sums + t);
      if constexpr (kFormat.halves == 2) {
        AddHalf<kType, kPrecision, kRows, 1>(codes, second, activations + t * kCodes, scales + t,
                                             side + t * kSides, sums + t);
      }
    }
  }
  BATON_UNROLL_TILE
  for (int t = 0; t < tile; ++t) StoreSums(args, t, sums[t]);
}

template <PanelType kType>
BATON_INLINE f32x16 LoadWeights(const uint8_t* p) {
  if constexpr (kType == PanelType::kF16) return LoadHalfBytes(p);
  if constexpr (kType == PanelType::kBF16) {
    return LoadBfloat16(reinterpret_cast<const uint16_t*>(p));
  }
  return Load(reinterpret_cast<const float*>(p));
}

// kRows rows at a time walk the whole panel.
template <PanelType kType, int kRows>
void FloatTile(const LinearTileArgs& args) {
  constexpr int kBytes = kPanelRows * (kType == PanelType::kF32 ? 4 : 2);
  for (int first = 0; first < args.tile_rows; first += kRows) {
    f32x16 sums[kRows];
    BATON_UNROLL
    for (int r = 0; r < kRows; ++r) sums[r] = Zero();
    const uint8_t* weights = args.panel;
    const float* inputs = args.floats + first;
    for (int64_t k = 0; k < args.num_inputs; ++k, weights += kBytes, inputs += args.tile_rows) {
      Prefetch<kType, kBytes, kRows>(weights);
      const f32x16 w = LoadWeights<kType>(weights);
      BATON_UNROLL
      for (int r = 0; r < kRows; ++r) sums[r] = Fma(w, Set1(inputs[r]), sums[r]);
    }
    BATON_UNROLL
    for (int r = 0; r < kRows; ++r) StoreSums(args, first + r, sums[r]);
  }
}

template <PanelType kType, Precision kPrecision, int kTile>
constexpr LinearTileFn TileOf() {
  if constexpr (IsQuantized(kType)) {
    constexpr int kRows = Smaller(kTile, Together(kPrecision));
    constexpr int kFixedTile = kTileIsConstant ? kTile : 0;
    return QuantizedTile<kType, kPrecision, kRows, kFixedTile>;
  } else {
    return FloatTile<kType, Smaller(kTile, kFloatTogether)>;
  }
}

// The tiles of one precision, by TileSizeIndex.
template <PanelType kType, Precision kPrecision>
constexpr TilesBySize TilesOf() {
  return {TileOf<kType, kPrecision, 1>(), TileOf<kType, kPrecision, 2>(),
          TileOf<kType, kPrecision, 4>(), TileOf<kType, kPrecision, 8>(),
          TileOf<kType, kPrecision, 16>()};
}

}  // namespace baton::BATON_ISA
