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

struct Batch {
  int count;                        // those behind it are zeros
  bool is_contiguous;               // the blocks' results follow each other in memory
  const float* from[kBatchBlocks];  // [32]
  int64_t place[kBatchBlocks];      // of the results, in blocks
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
BATON_INLINE void Quantize(const Batch& batch, uint8_t* all, BatchCodes<kHalves>& codes) {
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
    if (i >= batch.count) continue;
    StoreCodes<kPrecision>(all + batch.place[i] * ActivationBytes(kPrecision), a, b);
  }
}

// One word of each block to its place.
BATON_INLINE void StoreWords(uint32_t* all, i32x16 words, const Batch& batch) {
  if (batch.is_contiguous && batch.count == kBatchBlocks) {
    StoreInt(reinterpret_cast<int32_t*>(all + batch.place[0]), words);
    return;
  }
  int32_t lanes[kBatchBlocks];
  StoreInt(lanes, words);
  for (int i = 0; i < batch.count; ++i) all[batch.place[i]] = static_cast<uint32_t>(lanes[i]);
}
BATON_INLINE void StoreScales(float* all, f32x16 scales, const Batch& batch) {
  if (batch.is_contiguous && batch.count == kBatchBlocks) {
    Store(all + batch.place[0], scales);
    return;
  }
  float lanes[kBatchBlocks];
  Store(lanes, scales);
  for (int i = 0; i < batch.count; ++i) all[batch.place[i]] = lanes[i];
}

// Two words of each block.
BATON_INLINE void StorePairs(uint32_t* all, i32x16 first, i32x16 second, const Batch& batch) {
  int32_t lanes[2][kBatchBlocks];
  StoreInt(lanes[0], first);
  StoreInt(lanes[1], second);
  for (int i = 0; i < batch.count; ++i) {
    all[2 * batch.place[i]] = static_cast<uint32_t>(lanes[0][i]);
    all[2 * batch.place[i] + 1] = static_cast<uint32_t>(lanes[1][i]);
  }
}

template <int kBits>
BATON_INLINE i32x16 TimesMinusPower(i32x16 a) {  // a * -2^kBits
  return SubInt(SetInt1(0), ShiftLeft<kBits>(a));
}

// -2^kBits times the sums of codes, in the form in which this instruction set starts sums of
// products. codes: what lane i of sums is the sum of.
template <SideKind kKind, Precision kPrecision, int kBits>
BATON_INLINE i32x16 Starts(const i32x16 (&codes)[kBatchBlocks], i32x16 sums) {
#if defined(BATON_ISA_AVX2) && !defined(BATON_ISA_AVX_VNNI)
  if constexpr (StartsArePairs(kKind, kPrecision)) {
    int32_t starts[kBatchBlocks];
    for (int i = 0; i < kBatchBlocks; ++i) {
      starts[i] = static_cast<int32_t>(PairStarts(codes[i], -(1 << kBits)));
    }
    return LoadInt(starts);
  }
#endif
  static_cast<void>(codes);
  return TimesMinusPower<kBits>(sums);
}

// The side values that belong to a whole block.
template <Precision kPrecision, bool kHalves>
BATON_INLINE void StoreBlockSides(const QuantizeRowsArgs& args, const Batch& batch,
                                  const BatchCodes<kHalves>& codes) {
  const i32x16 sum = SumOfEach(codes.both);
  if (uint32_t* all = args.sides[static_cast<int>(SideKind::kMinus8A)]) {
    StoreWords(all, TimesMinusPower<3>(sum), batch);
  }
  if (uint32_t* all = args.sides[static_cast<int>(SideKind::kMinus16A)]) {
    StoreWords(all, Starts<SideKind::kMinus16A, kPrecision, 4>(codes.both, sum), batch);
  }
  if (uint32_t* all = args.sides[static_cast<int>(SideKind::kMinus128A)]) {
    StoreWords(all, TimesMinusPower<7>(sum), batch);
  }
  if (uint32_t* all = args.sides[static_cast<int>(SideKind::kScaledA)]) {
    StoreWords(all, AsInt(Mul(Load(codes.scales), ToFloat(sum))), batch);
  }
}

// Those that belong to half a block.
template <Precision kPrecision>
BATON_INLINE void StoreHalfSides(const QuantizeRowsArgs& args, const Batch& batch,
                                 const BatchCodes<true>& codes) {
  const i32x16 first = SumOfEach(codes.first);
  const i32x16 second = SumOfEach(codes.second);
  if (uint32_t* all = args.sides[static_cast<int>(SideKind::kMinus32Halves)]) {
    constexpr SideKind kKind = SideKind::kMinus32Halves;
    StorePairs(all, Starts<kKind, kPrecision, 5>(codes.first, first),
               Starts<kKind, kPrecision, 5>(codes.second, second), batch);
  }
  if (uint32_t* all = args.sides[static_cast<int>(SideKind::kMinus4Halves)]) {
    StorePairs(all, TimesMinusPower<2>(first), TimesMinusPower<2>(second), batch);
  }
  if (uint32_t* all = args.sides[static_cast<int>(SideKind::kScaledHalves)]) {
    const f32x16 scales = Load(codes.scales);
    StorePairs(all, AsInt(Mul(scales, ToFloat(first))), AsInt(Mul(scales, ToFloat(second))), batch);
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
  Quantize<kPrecision>(batch, args.codes, codes);
  StoreScales(args.scales, Load(codes.scales), batch);
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
  Batch batch;
  batch.is_contiguous = args.num_rows == args.tile_rows;
  int row = 0;
  int64_t block = 0;
  while (block < num_blocks) {
    batch.count = 0;
    for (int i = 0; i < kBatchBlocks; ++i) {
      batch.from[i] = kZeroBlock;
      if (block == num_blocks) continue;
      if (args.rows[row] != nullptr) batch.from[i] = args.rows[row] + block * kInputBlock;
      batch.place[i] = block * args.tile_rows + row;
      ++batch.count;
      if (++row == args.num_rows) {
        row = 0;
        ++block;
      }
    }
    if (wants_halves) {
      QuantizeBatch<kPrecision, true>(args, batch, wants_blocks);
    } else {
      QuantizeBatch<kPrecision, false>(args, batch, wants_blocks);
    }
  }
}

}  // namespace

const QuantizeRowsFn kQuantizeRows[kNumPrecisions] = {QuantizeRows<Precision::kFast>,
                                                      QuantizeRows<Precision::kExact>};

}  // namespace baton::BATON_ISA
