#include "tensor/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace baton {
namespace {

// The value of a binary16 by its definition, in binary64.
double HalfByDefinition(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Half, EveryBinary16IsExactAndComesBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const double expected = HalfByDefinition(half);
    const float got = HalfToFloat(half);
    ASSERT_EQ(std::signbit(got), (half & 0x8000) != 0) << bits;
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
      ASSERT_EQ(FloatToHalf(got), half | 0x200) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(got), expected) << bits;
    ASSERT_EQ(FloatToHalf(got), half) << bits;
  }
}

// Around every border between two neighbours: the border itself goes to the even one.
TEST(Half, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const auto lower = static_cast<uint16_t>(bits);
    const auto upper = static_cast<uint16_t>(bits + 1);
    const auto middle =
        static_cast<float>((HalfByDefinition(lower) + HalfByDefinition(upper)) / 2);  // exact
    const uint16_t even = bits % 2 == 0 ? lower : upper;
    ASSERT_EQ(FloatToHalf(middle), even) << bits;
    ASSERT_EQ(FloatToHalf(-middle), even | 0x8000) << bits;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 0.0f)), lower) << bits;
    ASSERT_EQ(FloatToHalf(std::nextafter(middle, 1e9f)), upper) << bits;
  }
}

TEST(Half, LargeAndTinyValues) {
  EXPECT_EQ(FloatToHalf(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65519.996f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(3.0e38f), 0x7c00);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(FloatToHalf(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(FloatToHalf(-0.0f), 0x8000);
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Bf16, EveryValueComesBackAndBordersGoToEven) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto bf16 = static_cast<uint16_t>(bits);
    const float value = Bf16ToFloat(bf16);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(value)))) << bits;
      continue;
    }
    ASSERT_EQ(FloatToBf16(value), bf16) << bits;
    if ((bits & 0x7fff) >= 0x7f7f) continue;
    // The middle between this value and the next in magnitude differs in the lower half only.
    const float middle = std::bit_cast<float>((bits << 16) | 0x8000u);
    ASSERT_EQ(FloatToBf16(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
  }
  EXPECT_EQ(FloatToBf16(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace baton
