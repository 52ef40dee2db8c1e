// Turns a row of inputs into codes, scales and side values (rules: kernels/quantize_rows.h).
#include "kernels/f32x16.h"
#include "kernels/i8dot.inl.h"
#include "kernels/linear_tables.inl.h"
#include "kernels/quantize.inl.h"

namespace baton::BATON_ISA {
namespace {

BATON_INLINE void StoreFloat(uint32_t* p, float x) {
  *p = __builtin_bit_cast(uint32_t, x);
}
BATON_INLINE void StoreTimes(uint32_t* p, int32_t factor, int32_t sum) {
  *p = static_cast<uint32_t>(factor * sum);
}

struct HalfSums {
  int32_t first;
  int32_t second;
};

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
  StoreTimes(p, factor, sum);
}

// The side values of block b of a row, of the kinds that are wanted.
template <Precision kPrecision>
BATON_INLINE void StoreSides(const QuantizeRowArgs& args, int64_t b, const BlockCodes& codes) {
  const HalfSums sums = {ReduceAddInt(codes.first), ReduceAddInt(codes.second)};
  const float scale = codes.scale;
  const auto place = [&](SideKind kind) __attribute__((always_inline))->uint32_t* {
    uint32_t* side = args.sides[static_cast<int>(kind)];
    return side == nullptr ? nullptr : side + b * args.tile_rows * SideValues(kind);
  };
  const int32_t sum = sums.first + sums.second;
  if (uint32_t* p = place(SideKind::kMinus8A)) StoreTimes(p, -8, sum);
  if (uint32_t* p = place(SideKind::kMinus16A)) {
    StoreStart<SideKind::kMinus16A, kPrecision>(p, -16, AddInt(codes.first, codes.second), sum);
  }
  if (uint32_t* p = place(SideKind::kMinus128A)) StoreTimes(p, -128, sum);
  if (uint32_t* p = place(SideKind::kScaledA)) StoreFloat(p, scale * static_cast<float>(sum));
  if (uint32_t* p = place(SideKind::kMinus32Halves)) {
    constexpr SideKind kKind = SideKind::kMinus32Halves;
    StoreStart<kKind, kPrecision>(p, -32, codes.first, sums.first);
    StoreStart<kKind, kPrecision>(p + 1, -32, codes.second, sums.second);
  }
  if (uint32_t* p = place(SideKind::kMinus4Halves)) {
    StoreTimes(p, -4, sums.first);
    StoreTimes(p + 1, -4, sums.second);
  }
  if (uint32_t* p = place(SideKind::kScaledHalves)) {
    StoreFloat(p, scale * static_cast<float>(sums.first));
    StoreFloat(p + 1, scale * static_cast<float>(sums.second));
  }
}

template <Precision kPrecision>
void QuantizeRow(const QuantizeRowArgs& args) {
  if (args.floats != nullptr) {
    for (int64_t k = 0; k < args.num_inputs; ++k) {
      args.floats[k * args.tile_rows] = args.row != nullptr ? args.row[k] : 0.0f;
    }
  }
  if (args.codes == nullptr) return;
  for (int64_t b = 0; b < args.num_inputs / kInputBlock; ++b) {
    f32x16 first = Zero();
    f32x16 second = Zero();
    if (args.row != nullptr) {
      first = Load(args.row + b * kInputBlock);
      second = Load(args.row + b * kInputBlock + kLanes);
    }
    const BlockCodes codes = Quantize<kPrecision>(first, second);
    const int64_t at = b * args.tile_rows;
    StoreCodes<kPrecision>(args.codes + at * ActivationBytes(kPrecision), codes.first,
                           codes.second);
    args.scales[at] = codes.scale;
    StoreSides<kPrecision>(args, b, codes);
  }
}

}  // namespace

const QuantizeRowFn kQuantizeRow[kNumPrecisions] = {QuantizeRow<Precision::kFast>,
                                                    QuantizeRow<Precision::kExact>};

}  // namespace baton::BATON_ISA
