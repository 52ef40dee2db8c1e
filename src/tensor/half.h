// Conversions between binary32 and the 16-bit formats, in integer arithmetic.
//
// Exact where the target can hold the value, otherwise to nearest, ties to even; independent of
// the processor's rounding and flush-to-zero modes. Kernels use vector instructions instead; these
// are what they are tested against.
#pragma once

#include <bit>
#include <cstdint>

namespace baton {

// binary16 to binary32. Exact; NaN keeps its sign and payload and becomes quiet.
constexpr float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 31) {
    const uint32_t quiet = fraction != 0 ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | quiet | (fraction << 13));
  }
  if (exponent != 0) {
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
  }
  if (fraction == 0) return std::bit_cast<float>(sign);
  // Subnormal: fraction * 2^-24 with the leading one at bit `top`.
  const uint32_t top = 31u - static_cast<uint32_t>(std::countl_zero(fraction));
  const uint32_t mantissa = (fraction << (23 - top)) & 0x7fffffu;
  return std::bit_cast<float>(sign | ((top + 103) << 23) | mantissa);
}

// binary32 to binary16, to nearest even. Above 65504 + half a step: infinity. NaN stays NaN.
constexpr uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: quiet, upper bits of the payload
    return static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  }
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);
  const uint32_t exponent = magnitude >> 23;
  // What is shifted out decides the rounding: 13 bits for normal results, more for subnormal.
  uint32_t significand = magnitude;
  uint32_t shift = 13;
  uint32_t base = 0;
  if (exponent >= 113) {
    significand = magnitude - (112u << 23);
  } else {
    if (exponent < 102) return static_cast<uint16_t>(sign);  // below half of the smallest
    significand = (magnitude & 0x7fffffu) | 0x800000u;
    shift = 126 - exponent;
  }
  base = significand >> shift;
  const uint32_t rest = significand & ((1u << shift) - 1u);
  const uint32_t half_step = 1u << (shift - 1);
  if (rest > half_step || (rest == half_step && (base & 1u) != 0)) ++base;
  return static_cast<uint16_t>(sign | base);
}

// bfloat16 to binary32. Exact.
constexpr float Bf16ToFloat(uint16_t bf16) {
  return std::bit_cast<float>(static_cast<uint32_t>(bf16) << 16);
}

// binary32 to bfloat16, to nearest even. NaN stays NaN.
constexpr uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace baton
