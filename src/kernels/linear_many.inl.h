// One or two panels times many rows: the weights are expanded once per span of inputs, into memory
// that stays in the nearest cache, and meet all rows. Included by *_isa.cc files only.
//
// Same formulas, same order as in linear.inl.h: each (output row, row) has one f32 accumulator and
// takes its blocks in ascending order. Between two spans it lies in the output.
#pragma once

#include "kernels/linear.inl.h"

namespace baton::BATON_ISA {

// Panels that share one broadcast of an activation, and rows under way at once. AVX-512: 12 integer
// sums are as many chains as keep vpdpbusd busy, and leave registers for their 12 accumulators.
// Those of 16 would lie in memory, and a load and a store of 512 bits take three cycles of Zen 4,
// for every half of a block. AVX2 has registers for the integers of
// four rows only. Inputs per span: a shorter one fits the nearest cache, but then the accumulators
// go through the output more often.
// Float weights: four rows times three registers (AVX2) are 12 chains, 7 loads for 12 fma, and all
// 16 registers. Three registers are one and a half panels, so two strips of them take three panels.
// A strip of a span lies in the nearest cache, the inputs pass from a far one; the fewer times
// weights are widened anew, the better.
#if defined(BATON_ISA_AVX512)
inline constexpr int kManyPanels = 3;
inline constexpr int kManyRows = 4;
inline constexpr int kStripRegisters = 2;
inline constexpr int kStrips = 1;
inline constexpr int kManyFloatRows = 8;
inline constexpr int64_t kNearCacheBytes = 1 << 20;
inline constexpr int64_t kFloatCacheBytes = 1 << 20;
#else
inline constexpr int kManyPanels = 1;
inline constexpr int kManyRows = 4;
inline constexpr int kStripRegisters = 3;
inline constexpr int kStrips = 2;
inline constexpr int kManyFloatRows = 4;
inline constexpr int64_t kNearCacheBytes = 1 << 18;
inline constexpr int64_t kFloatCacheBytes = 1 << 22;
#endif
inline constexpr int kSpanInputs = 1024;
inline constexpr int kSpanBlocks = kSpanInputs / kInputBlock;
inline constexpr int kFloatSpanInputs = 128;

// A block of 32 inputs of kPanels panels.
template <int kHalves, bool kHasMin, int kPanels>
struct ExpandedBlock {
  alignas(kLineBytes) uint8_t codes[kCodeGroups][kPanels][kLineBytes];
  float d[kHalves][kPanels][kPanelRows];
  float m[kHasMin ? kHalves : 1][kPanels][kPanelRows];
};
template <PanelType kType, int kPanels>
using ExpandedBlockOf = ExpandedBlock<FormatOf(kType).halves, FormatOf(kType).has_min, kPanels>;

BATON_INLINE void StoreLine(uint8_t* p, u8x64 line) {
#if defined(BATON_ISA_AVX512)
  _mm512_storeu_si512(p, line.v);
#elif defined(BATON_ISA_AVX2)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), line.lo);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), line.hi);
#else
  __builtin_memcpy(p, line.v, kLineBytes);
#endif
}

template <PanelType kType, int kPanels>
[[gnu::noinline]] void ExpandSpan(const LinearManyArgs& args, int64_t first_block,
                                  int64_t num_blocks, ExpandedBlockOf<kType, kPanels>* expanded) {
  constexpr PanelFormat kFormat = FormatOf(kType);
  for (int p = 0; p < kPanels; ++p) {
    for (int64_t b = first_block; b < first_block + num_blocks; ++b) {
      const uint8_t* record = args.panels[p] + b / kFormat.blocks() * kFormat.record_bytes();
      const int64_t block = b % kFormat.blocks();
      ExpandedBlockOf<kType, kPanels>& to = expanded[b - first_block];
      CodeBlock codes;
      ExpandCodes<kType, Precision::kFast>(record, block, codes);
      BATON_UNROLL
      for (int g = 0; g < kCodeGroups; ++g) StoreLine(to.codes[g][p], codes.group[g]);
      const BlockScale first = LoadScale<kType, 0>(record, block);
      Store(to.d[0][p], first.d);
      if constexpr (kFormat.has_min) Store(to.m[0][p], first.m);
      if constexpr (kFormat.halves == 2) {
        const BlockScale second = LoadScale<kType, 1>(record, block);
        Store(to.d[1][p], second.d);
        if constexpr (kFormat.has_min) Store(to.m[1][p], second.m);
      }
    }
  }
}

// The integer sums of one half (or the whole) of a block.
template <PanelType kType, int kRows, int kPanels, int kHalf>
BATON_INLINE void DotExpanded(const ExpandedBlockOf<kType, kPanels>& block,
                              const uint8_t* activations, const uint32_t* side,
                              i32x16 (&integers)[kRows][kPanels]) {
  constexpr PanelFormat kFormat = FormatOf(kType);
  constexpr int kCount = kCodeGroups / kFormat.halves;
  constexpr int kStride = SideValues(kFormat.side);
#if defined(BATON_ISA_AVX512)
  __m512i sums[kRows][kPanels];
  BATON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    BATON_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      sums[r][p] = kFormat.offset != 0 ? _mm512_set1_epi32(LoadWord(side + r * kStride + kHalf))
                                       : _mm512_setzero_si512();
    }
  }
  BATON_UNROLL
  for (int g = kHalf * kCount; g < (kHalf + 1) * kCount; ++g) {
    __m512i line[kPanels];
    BATON_UNROLL
    for (int p = 0; p < kPanels; ++p) line[p] = LoadLine(block.codes[g][p]).v;
    BATON_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const __m512i a = _mm512_set1_epi32(LoadWord(activations + r * kInputBlock + 4 * g));
      BATON_UNROLL
      for (int p = 0; p < kPanels; ++p) sums[r][p] = _mm512_dpbusd_epi32(sums[r][p], line[p], a);
    }
  }
  BATON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    BATON_UNROLL
    for (int p = 0; p < kPanels; ++p) integers[r][p] = {sums[r][p]};
  }
#else
  static_assert(kPanels == 1);
  CodeBlock codes;
  BATON_UNROLL
  for (int g = 0; g < kCodeGroups; ++g) codes.group[g] = LoadLine(block.codes[g][0]);
  i32x16 sums[kRows];
  Dot<kType, Precision::kFast, kRows, kHalf * kCount, kCount>(codes, activations, side + kHalf,
                                                              kStride, sums);
  BATON_UNROLL
  for (int r = 0; r < kRows; ++r) integers[r][0] = sums[r];
#endif
}

// kRows rows of a tile times a span of blocks: their inputs from its first block on, their outputs.
struct ManyRowsArgs {
  int64_t num_blocks;
  const uint8_t* codes;
  const float* scales;
  const uint32_t* side;
  float* out;  // the first panel's first output of the first row
  int64_t out_stride;
  bool is_fresh;  // the sums begin at zero, otherwise at what `out` has
};

#if defined(BATON_ISA_AVX512)
template <PanelType kType, int kRows, int kPanels, int kHalf>
BATON_INLINE void AddExpandedHalf(const ExpandedBlockOf<kType, kPanels>& block,
                                  const uint8_t* activations, const float* scales,
                                  const uint32_t* side, f32x16 (&sums)[kRows][kPanels]) {
  constexpr PanelFormat kFormat = FormatOf(kType);
  i32x16 integers[kRows][kPanels];
  DotExpanded<kType, kRows, kPanels, kHalf>(block, activations, side, integers);
  BATON_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    BATON_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sums[r][p] =
          Fma(Mul(Load(block.d[kHalf][p]), Set1(scales[r])), ToFloat(integers[r][p]), sums[r][p]);
      if constexpr (kFormat.has_min) {
        const int at = r * SideValues(kFormat.side) + kHalf;
        const float x = __builtin_bit_cast(float, LoadWord(side + at));
        sums[r][p] = Fma(Load(block.m[kHalf][p]), Set1(x), sums[r][p]);
      }
    }
  }
}

template <PanelType kType, int kRows, int kPanels>
[[gnu::noinline]] void ManyRows(const ExpandedBlockOf<kType, kPanels>* expanded,
                                const ManyRowsArgs& args) {
  constexpr int kSides = SideValues(FormatOf(kType).side);
  const uint8_t* activations = args.codes;
  const float* scales = args.scales;
  const uint32_t* side = args.side;
  f32x16 sums[kRows][kPanels];
  BATON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const float* out = args.out + r * args.out_stride;
    BATON_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      sums[r][p] = args.is_fresh ? Zero() : Load(out + p * kPanelRows);
    }
  }
  for (int64_t b = 0; b < args.num_blocks; ++b) {
    AddExpandedHalf<kType, kRows, kPanels, 0>(expanded[b], activations, scales, side, sums);
    if constexpr (FormatOf(kType).halves == 2) {
      AddExpandedHalf<kType, kRows, kPanels, 1>(expanded[b], activations, scales, side, sums);
    }
    activations += kLinearTileRows * kInputBlock;
    scales += kLinearTileRows;
    side += kLinearTileRows * kSides;
  }
  BATON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    float* out = args.out + r * args.out_stride;
    BATON_UNROLL
    for (int p = 0; p < kPanels; ++p) Store(out + p * kPanelRows, sums[r][p]);
  }
}
#else
template <PanelType kType, int kRows, int kPanels, int kHalf>
BATON_INLINE void AddExpandedHalf(const ExpandedBlockOf<kType, kPanels>& block,
                                  const uint8_t* activations, const float* scales,
                                  const uint32_t* side, float (*sums)[kPanels][kPanelRows]) {
  constexpr PanelFormat kFormat = FormatOf(kType);
  i32x16 integers[kRows][kPanels];
  DotExpanded<kType, kRows, kPanels, kHalf>(block, activations, side, integers);
  f32x16 d[kPanels];
  f32x16 m[kPanels];
  BATON_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    d[p] = Load(block.d[kHalf][p]);
    if constexpr (kFormat.has_min) m[p] = Load(block.m[kHalf][p]);
  }
  BATON_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const f32x16 scale = Set1(scales[r]);
    BATON_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      f32x16 sum = Fma(Mul(d[p], scale), ToFloat(integers[r][p]), Load(sums[r][p]));
      if constexpr (kFormat.has_min) {
        const int at = r * SideValues(kFormat.side) + kHalf;
        const float x = __builtin_bit_cast(float, LoadWord(side + at));
        sum = Fma(m[p], Set1(x), sum);
      }
      Store(sums[r][p], sum);
    }
  }
  // The sums stay in memory: the registers are full of integers, and left to itself GCC spills
  // those instead.
  asm volatile("" ::: "memory");
}

template <PanelType kType, int kRows, int kPanels>
[[gnu::noinline]] void AddSpan(const ExpandedBlockOf<kType, kPanels>* expanded,
                               const ManyRowsArgs& args, float (*sums)[kPanels][kPanelRows]) {
  constexpr int kSides = SideValues(FormatOf(kType).side);
  const uint8_t* activations = args.codes;
  const float* scales = args.scales;
  const uint32_t* side = args.side;
  for (int64_t b = 0; b < args.num_blocks; ++b) {
    AddExpandedHalf<kType, kRows, kPanels, 0>(expanded[b], activations, scales, side, sums);
    if constexpr (FormatOf(kType).halves == 2) {
      AddExpandedHalf<kType, kRows, kPanels, 1>(expanded[b], activations, scales, side, sums);
    }
    activations += kLinearTileRows * kInputBlock;
    scales += kLinearTileRows;
    side += kLinearTileRows * kSides;
  }
}

template <PanelType kType, int kRows, int kPanels>
BATON_INLINE void ManyRows(const ExpandedBlockOf<kType, kPanels>* expanded,
                           const ManyRowsArgs& args) {
  alignas(kLineBytes) float sums[kRows][kPanels][kPanelRows];
  for (int r = 0; r < kRows; ++r) {
    const float* out = args.out + r * args.out_stride;
    BATON_UNROLL
    for (int p = 0; p < kPanels; ++p) {
      Store(sums[r][p], args.is_fresh ? Zero() : Load(out + p * kPanelRows));
    }
  }
  AddSpan<kType, kRows, kPanels>(expanded, args, sums);
  for (int r = 0; r < kRows; ++r) {
    float* out = args.out + r * args.out_stride;
    BATON_UNROLL
    for (int p = 0; p < kPanels; ++p) Store(out + p * kPanelRows, Load(sums[r][p]));
  }
}
#endif

template <PanelType kType, int kPanels>
void QuantizedPanels(const LinearManyArgs& args) {
  constexpr int kSides = SideValues(FormatOf(kType).side);
  ExpandedBlockOf<kType, kPanels> expanded[kSpanBlocks];
  const int64_t num_blocks = args.num_inputs / kInputBlock;
  for (int64_t b = 0; b < num_blocks; b += kSpanBlocks) {
    const int64_t count = num_blocks - b < kSpanBlocks ? num_blocks - b : kSpanBlocks;
    ExpandSpan<kType, kPanels>(args, b, count, expanded);
    for (int64_t row = 0; row < args.num_rows; row += kManyRows) {
      const int64_t in_tile = row % kLinearTileRows;
      const int64_t at = (row - in_tile) * num_blocks + b * kLinearTileRows + in_tile;
      ManyRows<kType, kManyRows, kPanels>(expanded, {.num_blocks = count,
                                                     .codes = args.codes + at * kInputBlock,
                                                     .scales = args.scales + at,
                                                     .side = args.side + at * kSides,
                                                     .out = args.out + row * args.out_stride,
                                                     .out_stride = args.out_stride,
                                                     .is_fresh = b == 0});
    }
  }
}

// Float weights.
#if !defined(BATON_ISA_PORTABLE)
// One register of floats.
#if defined(BATON_ISA_AVX512)
inline constexpr int kRegisterLanes = 16;
using FloatRegister = __m512;
BATON_INLINE FloatRegister LoadRegister(const float* p) {
  return _mm512_loadu_ps(p);
}
BATON_INLINE FloatRegister FillRegister(float x) {
  return _mm512_set1_ps(x);
}
BATON_INLINE void StoreRegister(float* p, FloatRegister a) {
  _mm512_storeu_ps(p, a);
}
BATON_INLINE FloatRegister FmaRegister(FloatRegister a, FloatRegister b, FloatRegister c) {
  return _mm512_fmadd_ps(a, b, c);
}
#else
inline constexpr int kRegisterLanes = 8;
using FloatRegister = __m256;
BATON_INLINE FloatRegister LoadRegister(const float* p) {
  return _mm256_loadu_ps(p);
}
BATON_INLINE FloatRegister FillRegister(float x) {
  return _mm256_set1_ps(x);
}
BATON_INLINE void StoreRegister(float* p, FloatRegister a) {
  _mm256_storeu_ps(p, a);
}
BATON_INLINE FloatRegister FmaRegister(FloatRegister a, FloatRegister b, FloatRegister c) {
  return _mm256_fmadd_ps(a, b, c);
}
#endif

// The outputs that a few rows meet at once, and their widened weights: [input][output].
inline constexpr int kStripOutputs = kStripRegisters * kRegisterLanes;
inline constexpr int kManyFloatPanels = kStrips * kStripOutputs / kPanelRows;
static_assert(kManyFloatPanels * kPanelRows == kStrips * kStripOutputs);
using WideStrip = float[kFloatSpanInputs][kStripOutputs];

template <PanelType kType>
[[gnu::noinline]] void WidenSpan(const LinearManyArgs& args, int64_t first, int64_t count,
                                 WideStrip* strips) {
  constexpr int kBytes = kPanelRows * (kType == PanelType::kF32 ? 4 : 2);
  for (int p = 0; p < kManyFloatPanels; ++p) {
    const uint8_t* weights = args.panels[p] + first * kBytes;
    for (int64_t k = 0; k < count; ++k) {
      Prefetch<kType, kBytes, kLinearTileRows>(weights + k * kBytes);
      float w[kPanelRows];
      Store(w, LoadWeights<kType>(weights + k * kBytes));
      BATON_UNROLL
      for (int i = 0; i < kPanelRows; i += kRegisterLanes) {
        const int output = p * kPanelRows + i;
        StoreRegister(&strips[output / kStripOutputs][k][output % kStripOutputs],
                      LoadRegister(w + i));
      }
    }
  }
}

// kManyFloatRows rows times a strip. `sums`: rows of its outputs, `stride` apart; taken up again
// unless kFresh.
template <bool kFresh>
[[gnu::noinline]] void ManyFloatRows(const WideStrip& strip, int64_t count, const float* inputs,
                                     float* sums, int64_t stride) {
  FloatRegister sum[kManyFloatRows][kStripRegisters];
  BATON_UNROLL
  for (int r = 0; r < kManyFloatRows; ++r) {
    BATON_UNROLL
    for (int i = 0; i < kStripRegisters; ++i) {
      sum[r][i] =
          kFresh ? FillRegister(0.0f) : LoadRegister(sums + r * stride + i * kRegisterLanes);
    }
  }
  for (int64_t k = 0; k < count; ++k, inputs += kLinearTileRows) {
    FloatRegister w[kStripRegisters];
    BATON_UNROLL
    for (int i = 0; i < kStripRegisters; ++i) w[i] = LoadRegister(strip[k] + i * kRegisterLanes);
    BATON_UNROLL
    for (int r = 0; r < kManyFloatRows; ++r) {
      const FloatRegister x = FillRegister(inputs[r]);
      BATON_UNROLL
      for (int i = 0; i < kStripRegisters; ++i) sum[r][i] = FmaRegister(w[i], x, sum[r][i]);
    }
  }
  BATON_UNROLL
  for (int r = 0; r < kManyFloatRows; ++r) {
    BATON_UNROLL
    for (int i = 0; i < kStripRegisters; ++i) {
      StoreRegister(sums + r * stride + i * kRegisterLanes, sum[r][i]);
    }
  }
}

template <PanelType kType>
void FloatPanels(const LinearManyArgs& args) {
  alignas(kLineBytes) WideStrip strips[kStrips];
  for (int64_t k = 0; k < args.num_inputs; k += kFloatSpanInputs) {
    const int64_t rest = args.num_inputs - k;
    const int64_t count = rest < kFloatSpanInputs ? rest : kFloatSpanInputs;
    WidenSpan<kType>(args, k, count, strips);
    const auto multiply = k == 0 ? ManyFloatRows<true> : ManyFloatRows<false>;
    for (int s = 0; s < kStrips; ++s) {
      for (int64_t row = 0; row < args.num_rows; row += kManyFloatRows) {
        const int64_t in_tile = row % kLinearTileRows;
        const float* inputs =
            args.floats + (row - in_tile) * args.num_inputs + k * kLinearTileRows + in_tile;
        multiply(strips[s], count, inputs, args.out + row * args.out_stride + s * kStripOutputs,
                 args.out_stride);
      }
    }
  }
}
#endif

template <PanelType kType>
constexpr LinearMany MakeMany() {
#if defined(BATON_ISA_PORTABLE)
  return {.panels = 0, .near_cache_bytes = 0, .multiply = nullptr};
#else
  if constexpr (IsQuantized(kType)) {
    return {.panels = kManyPanels,
            .near_cache_bytes = kNearCacheBytes,
            .multiply = QuantizedPanels<kType, kManyPanels>};
  } else {
    return {.panels = kManyFloatPanels,
            .near_cache_bytes = kFloatCacheBytes,
            .multiply = FloatPanels<kType>};
  }
#endif
}

template <PanelType kType>
constexpr LinearKernels MakeLinearKernels() {
  return {.by_precision = {TilesOf<kType, Precision::kFast>(), TilesOf<kType, Precision::kExact>()},
          .many = MakeMany<kType>()};
}

}  // namespace baton::BATON_ISA
