// Turns a row of inputs into codes, scales and side values (rules: kernels/quantize_rows.h).
#include "kernels/f32x16.h"
#include "kernels/i8dot.inl.h"
#include "kernels/linear_tables.inl.h"

namespace baton::BATON_ISA {
namespace {

// So many blocks, of any rows, go side by side: a tree finds the maxima of all, another one the
// sums, and what follows from them is one vector of arithmetic.
inline constexpr int kBatchBlocks = kLanes;

constexpr float kZeroBlock[kInputBlock] = {};

// Inputs of a row that are asked for ahead: sixteen rows are more streams than the hardware's own
// prefetch follows.
inline constexpr int kAhead = 4 * kInputBlock;

// Blocks whose results follow each other in memory.
struct Batch {
  int count;                        // those behind it are zeros
  int64_t place;                    // of the first, in blocks
  const float* from[kBatchBlocks];  // [32]
};

// What the side values of a batch are made of.
template <bool kHalves>
struct BatchCodes {
  i32x16 both[kBatchBlocks];                  // the halves of a block added
  i32x16 first[kHalves ? kBatchBlocks : 1];   // only with kHalves
  i32x16 second[kHalves ? kBatchBlocks : 1];  // likewise
  float scales[kBatchBlocks];
};

// 1 / scale and scale of each block, from the largest magnitudes as integers.
template <Precision kPrecision>
BATON_INLINE void FindScales(i32x16 amax_bits, float* inverses, float* scales) {
  constexpr float kLargest = kPrecision == Precision::kFast ? 127.0f : 32512.0f;
  constexpr float kSmallestMax = kPrecision == Precision::kFast ? 0x1p-119f : 0x1p-111f;
  const f32x16 amax = AsFloat(amax_bits);
  const f32x16 largest = Set1(kLargest);
  const f32x16 smallest = Set1(kSmallestMax);
  Store(inverses, SelectGreater(smallest, amax, Zero(), Div(largest, amax)));
  Store(scales, SelectGreater(smallest, amax, Zero(), Div(amax, largest)));
}

// Stores the codes of the batch's blocks; the scales stay with the rest.
template <Precision kPrecision, bool kHalves>
BATON_INLINE void Quantize(const Batch& batch, uint8_t* to, BatchCodes<kHalves>& codes) {
  constexpr int32_t kInfinityBits = 0x7f800000;
  // As integers, the magnitudes of numbers are ordered as the numbers are, infinity and then the
  // NaNs above them all.
  i32x16 largest[kBatchBlocks];
  BATON_UNROLL
  for (int i = 0; i < kBatchBlocks; ++i) {
    largest[i] = MaxInt(AsInt(Abs(Load(batch.from[i]))), AsInt(Abs(Load(batch.from[i] + kLanes))));
  }
  const i32x16 amax_bits = MaxOfEach(largest);
  int32_t bits[kBatchBlocks];
  StoreInt(bits, amax_bits);
  float inverses[kBatchBlocks];
  FindScales<kPrecision>(amax_bits, inverses, codes.scales);
  for (int i = 0; i < kBatchBlocks; ++i) {
    f32x16 first = Load(batch.from[i]);
    f32x16 second = Load(batch.from[i] + kLanes);
    f32x16 inverse = Set1(inverses[i]);
    if (bits[i] >= kInfinityBits) [[unlikely]] {
      first = second = inverse = Zero();
      codes.scales[i] = __builtin_nanf("");
    }
    const i32x16 a = RoundToInt(Mul(first, inverse));
    const i32x16 b = RoundToInt(Mul(second, inverse));
    codes.both[i] = AddInt(a, b);
    if constexpr (kHalves) {
      codes.first[i] = a;
      codes.second[i] = b;
    }
    if (i < batch.count) StoreCodes<kPrecision>(to + i * ActivationBytes(kPrecision), a, b);
  }
}

BATON_INLINE void StoreWords(void* to, i32x16 words, int count) {
  int32_t all[kBatchBlocks];
  StoreInt(all, words);
  if (count == kBatchBlocks) {
    __builtin_memcpy(to, all, sizeof(all));
  } else {
    __builtin_memcpy(to, all, static_cast<size_t>(count) * sizeof(int32_t));
  }
}

// `factor` times the sum of codes, in the form in which this instruction set starts sums of
// products.
template <SideKind kKind, Precision kPrecision>
BATON_INLINE void StoreStart(uint32_t* p, int factor, i32x16 codes, int32_t sum) {
#if defined(BATON_ISA_AVX2) && !defined(BATON_ISA_AVX_VNNI)
  if constexpr (StartsArePairs(kKind, kPrecision)) {
    *p = PairStarts(codes, static_cast<int16_t>(factor));
    return;
  }
#endif
  static_cast<void>(codes);
  *p = static_cast<uint32_t>(factor * sum);
}

// Where a kind of side values goes; null where not wanted.
BATON_INLINE uint32_t* PlaceOf(const QuantizeRowsArgs& args, SideKind kind, const Batch& batch) {
  uint32_t* side = args.sides[static_cast<int>(kind)];
  return side == nullptr ? nullptr : side + batch.place * SideValues(kind);
}

// The side values that belong to a whole block.
template <Precision kPrecision, bool kHalves>
BATON_INLINE void StoreBlockSides(const QuantizeRowsArgs& args, const Batch& batch,
                                  const BatchCodes<kHalves>& codes) {
  const i32x16 sum = SumOfEach(codes.both);
  if (uint32_t* to = PlaceOf(args, SideKind::kMinus8A, batch)) {
    StoreWords(to, SubInt(SetInt1(0), ShiftLeft<3>(sum)), batch.count);
  }
  if (uint32_t* to = PlaceOf(args, SideKind::kMinus16A, batch)) {
    int32_t sums[kBatchBlocks];
    StoreInt(sums, sum);
    for (int i = 0; i < batch.count; ++i) {
      StoreStart<SideKind::kMinus16A, kPrecision>(to + i, -16, codes.both[i], sums[i]);
    }
  }
  if (uint32_t* to = PlaceOf(args, SideKind::kMinus128A, batch)) {
    StoreWords(to, SubInt(SetInt1(0), ShiftLeft<7>(sum)), batch.count);
  }
  if (uint32_t* to = PlaceOf(args, SideKind::kScaledA, batch)) {
    StoreWords(to, AsInt(Mul(Load(codes.scales), ToFloat(sum))), batch.count);
  }
}

// Those that belong to half a block.
template <Precision kPrecision>
BATON_INLINE void StoreHalfSides(const QuantizeRowsArgs& args, const Batch& batch,
                                 const BatchCodes<true>& codes) {
  const i32x16 first = SumOfEach(codes.first);
  const i32x16 second = SumOfEach(codes.second);
  int32_t sums[2][kBatchBlocks];
  StoreInt(sums[0], first);
  StoreInt(sums[1], second);
  if (uint32_t* to = PlaceOf(args, SideKind::kMinus32Halves, batch)) {
    constexpr SideKind kKind = SideKind::kMinus32Halves;
    for (int i = 0; i < batch.count; ++i) {
      StoreStart<kKind, kPrecision>(to + 2 * i, -32, codes.first[i], sums[0][i]);
      StoreStart<kKind, kPrecision>(to + 2 * i + 1, -32, codes.second[i], sums[1][i]);
    }
  }
  if (uint32_t* to = PlaceOf(args, SideKind::kMinus4Halves, batch)) {
    for (int i = 0; i < batch.count; ++i) {
      to[2 * i] = static_cast<uint32_t>(-4 * sums[0][i]);
      to[2 * i + 1] = static_cast<uint32_t>(-4 * sums[1][i]);
    }
  }
  if (uint32_t* to = PlaceOf(args, SideKind::kScaledHalves, batch)) {
    StoreInt(sums[0], AsInt(Mul(Load(codes.scales), ToFloat(first))));
    StoreInt(sums[1], AsInt(Mul(Load(codes.scales), ToFloat(second))));
    for (int i = 0; i < batch.count; ++i) {
      to[2 * i] = static_cast<uint32_t>(sums[0][i]);
      to[2 * i + 1] = static_cast<uint32_t>(sums[1][i]);
    }
  }
}

// Whether a kind with so many values per block is wanted.
BATON_INLINE bool WantsSides(const QuantizeRowsArgs& args, int values) {
  bool any = false;
  for (int kind = 0; kind < kNumSideKinds; ++kind) {
    any = any || (args.sides[kind] != nullptr && SideValues(static_cast<SideKind>(kind)) == values);
  }
  return any;
}

template <Precision kPrecision, bool kHalves>
BATON_INLINE void QuantizeBatch(const QuantizeRowsArgs& args, const Batch& batch,
                                bool wants_blocks) {
  BatchCodes<kHalves> codes;
  Quantize<kPrecision>(batch, args.codes + batch.place * ActivationBytes(kPrecision), codes);
  StoreWords(args.scales + batch.place, AsInt(Load(codes.scales)), batch.count);
  if (wants_blocks) StoreBlockSides<kPrecision>(args, batch, codes);
  if constexpr (kHalves) StoreHalfSides<kPrecision>(args, batch, codes);
}

BATON_INLINE void StoreFloats(const QuantizeRowsArgs& args) {
  for (int r = 0; r < args.num_rows; ++r) {
    const float* row = args.rows[r];
    float* to = args.floats + r;
    for (int64_t k = 0; k < args.num_inputs; ++k) {
      to[k * args.tile_rows] = row != nullptr ? row[k] : 0.0f;
    }
  }
}

template <Precision kPrecision>
void QuantizeRows(const QuantizeRowsArgs& args) {
  if (args.floats != nullptr) StoreFloats(args);
  if (args.codes == nullptr) return;
  const bool wants_blocks = WantsSides(args, 1);
  const bool wants_halves = WantsSides(args, 2);
  const int64_t num_blocks = args.num_inputs / kInputBlock;
  const int row_bits = __builtin_ctzll(static_cast<unsigned long long>(args.tile_rows));
  // Blocks whose results lie side by side: of all rows of a tile all of them, else one of each row.
  const bool is_whole = args.num_rows == args.tile_rows;
  const int64_t run = is_whole ? num_blocks * args.tile_rows : args.num_rows;
  for (int64_t begin = 0; begin < num_blocks * args.tile_rows;
       begin += is_whole ? run : args.tile_rows) {
    for (int64_t done = 0; done < run; done += kBatchBlocks) {
      Batch batch;
      batch.count = run - done < kBatchBlocks ? static_cast<int>(run - done) : kBatchBlocks;
      batch.place = begin + done;
      for (int i = 0; i < kBatchBlocks; ++i) {
        batch.from[i] = kZeroBlock;
        if (i >= batch.count) continue;
        const int64_t place = batch.place + i;
        const float* row = args.rows[place & (args.tile_rows - 1)];
        if (row == nullptr) continue;
        batch.from[i] = row + (place >> row_bits) * kInputBlock;
        __builtin_prefetch(batch.from[i] + kAhead);
        __builtin_prefetch(batch.from[i] + kAhead + kLanes);
      }
      if (wants_halves) {
        QuantizeBatch<kPrecision, true>(args, batch, wants_blocks);
      } else {
        QuantizeBatch<kPrecision, false>(args, batch, wants_blocks);
      }
    }
  }
}

}  // namespace

const QuantizeRowsFn kQuantizeRows[kNumPrecisions] = {QuantizeRows<Precision::kFast>,
                                                      QuantizeRows<Precision::kExact>};

}  // namespace baton::BATON_ISA
