// From 32 numbers to codes and a scale (rules: kernels/quantize_rows.h), on f32x16.
#pragma once

#include <cstdint>

#include "kernels/f32x16.h"
#include "kernels/i8dot.inl.h"
#include "kernels/precision.h"

namespace baton::BATON_ISA {
namespace {

// From numbers to codes of one scale.
struct CodeScale {
  float scale;
  float inverse;  // 0: all codes are 0, whatever the numbers are

  BATON_INLINE i32x16 CodesOf(f32x16 x) const {
    if (inverse == 0.0f) [[unlikely]]
      return SetInt1(0);
    return RoundToInt(Mul(x, Set1(inverse)));
  }
};

// amax_bits: the largest of the numbers' magnitudes, as an integer. As such, the magnitudes of
// numbers are ordered as the numbers are, infinity and then the NaNs above them all.
// Codes go up to `largest`; below `smallest_max` the scale would be subnormal.
BATON_INLINE CodeScale CodeScaleOf(int32_t amax_bits, float largest, float smallest_max) {
  constexpr int32_t kInfinityBits = 0x7f800000;
  if (amax_bits >= kInfinityBits) [[unlikely]] {
    return {.scale = __builtin_nanf(""), .inverse = 0.0f};
  }
  const float amax = __builtin_bit_cast(float, amax_bits);
  if (amax < smallest_max) return {.scale = 0.0f, .inverse = 0.0f};
  return {.scale = amax / largest, .inverse = largest / amax};
}
template <Precision kPrecision>
BATON_INLINE CodeScale CodeScaleOf(int32_t amax_bits) {
  return kPrecision == Precision::kFast ? CodeScaleOf(amax_bits, 127.0f, 0x1p-119f)
                                        : CodeScaleOf(amax_bits, 32512.0f, 0x1p-111f);
}

struct BlockCodes {
  i32x16 first;
  i32x16 second;
  float scale;
};

template <Precision kPrecision>
BATON_INLINE BlockCodes Quantize(f32x16 first, f32x16 second) {
  const CodeScale scale =
      CodeScaleOf<kPrecision>(ReduceMaxInt(MaxInt(AsInt(Abs(first)), AsInt(Abs(second)))));
  if (scale.inverse == 0.0f) [[unlikely]]
    return {SetInt1(0), SetInt1(0), scale.scale};
  const f32x16 inverse = Set1(scale.inverse);
  return {RoundToInt(Mul(first, inverse)), RoundToInt(Mul(second, inverse)), scale.scale};
}

// The low bytes of 32 integers, in order.
BATON_INLINE void StoreBytes32(uint8_t* p, i32x16 first, i32x16 second) {
#if defined(BATON_ISA_AVX2)
  const auto words = [](i32x16 a) __attribute__((always_inline)) {
    const __m256i low = _mm256_set1_epi32(0xff);
    return _mm256_permute4x64_epi64(
        _mm256_packus_epi32(_mm256_and_si256(a.lo, low), _mm256_and_si256(a.hi, low)), 0xd8);
  };
  const __m256i bytes = _mm256_packus_epi16(words(first), words(second));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(bytes, 0xd8));
#else
  StoreCodes<Precision::kFast>(p, first, second);
#endif
}

}  // namespace
}  // namespace baton::BATON_ISA
