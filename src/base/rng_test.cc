#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace baton {
namespace {

using Words = std::array<uint32_t, 4>;

// The vectors published with the paper's code (kat_vectors of Random123).
TEST(Philox, MatchesThePublishedVectors) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(UniformAt, IsAFunctionOfEachPartOfThePlace) {
  const RandomPlace place = {.seed = 5, .position = 7, .draw = 0};
  EXPECT_EQ(UniformAt(place), UniformAt(place));
  std::set<double> values;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32, UINT64_MAX}) {
    for (uint64_t position : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
      for (uint32_t draw : {0u, 1u}) {
        const double value = UniformAt({.seed = seed, .position = position, .draw = draw});
        EXPECT_GE(value, 0.0);
        EXPECT_LT(value, 1.0);
        values.insert(value);
      }
    }
  }
  EXPECT_EQ(values.size(), 4u * 3u * 2u);
}

TEST(UniformAt, IsUniform) {
  constexpr int kDraws = 100'000;
  std::array<int, 10> counts = {};
  for (int i = 0; i < kDraws; ++i) {
    const double value = UniformAt({.seed = 3, .position = static_cast<uint64_t>(i), .draw = 0});
    ++counts[static_cast<size_t>(value * 10.0)];
  }
  double chi_squared = 0.0;
  for (const int count : counts) {
    const double off = count - kDraws / 10.0;
    chi_squared += off * off / (kDraws / 10.0);
  }
  EXPECT_LT(chi_squared, 27.9);  // 99.9 % for 9 degrees of freedom
}

TEST(RandomStream, RepeatsAndDiffersBetweenStreams) {
  RandomStream a({.seed = 1, .stream = 2});
  RandomStream b({.seed = 1, .stream = 2});
  RandomStream c({.seed = 1, .stream = 3});
  int equal_to_c = 0;
  for (int i = 0; i < 100; ++i) {
    const uint64_t value = a.NextU64();
    EXPECT_EQ(value, b.NextU64());
    equal_to_c += value == c.NextU64() ? 1 : 0;
  }
  EXPECT_EQ(equal_to_c, 0);
}

TEST(RandomStream, BelowStaysBelowAndReachesAll) {
  RandomStream random({.seed = 9, .stream = 0});
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.NextBelow(7));
  EXPECT_EQ(seen.size(), 7u);
  EXPECT_EQ(*seen.rbegin(), 6u);
  EXPECT_EQ(random.NextBelow(1), 0u);
}

TEST(RandomStream, NormalHasMeanZeroAndVarianceOne) {
  RandomStream random({.seed = 4, .stream = 0});
  constexpr int kDraws = 100'000;
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < kDraws; ++i) {
    const double value = random.NextNormal();
    ASSERT_TRUE(std::isfinite(value));
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kDraws, 0.0, 0.02);
  EXPECT_NEAR(squares / kDraws, 1.0, 0.03);
}

}  // namespace
}  // namespace baton
