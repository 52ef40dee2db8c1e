#include "kernels/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "kernels/isa.h"
#include "kernels/rope_ref.h"

namespace baton {
namespace {

constexpr long double kTwoPi = 6.283185307179586476925286766559L;

std::vector<long double> PlainFrequencies(int rotary_dim, long double base) {
  std::vector<long double> result;
  for (int i = 0; i < rotary_dim / 2; ++i) {
    result.push_back(powl(base, -2.0L * i / rotary_dim));
  }
  return result;
}

struct RopeCase {
  int head_dim;
  int rotary_dim;
  double base;
  RopeLayout layout;
};

void PrintTo(const RopeCase& c, std::ostream* out) {
  *out << "head " << c.head_dim << " rotary " << c.rotary_dim << " base " << c.base
       << (c.layout == RopeLayout::kHalves ? " halves" : " interleaved");
}

class RopeTest : public testing::TestWithParam<RopeCase> {
 protected:
  std::unique_ptr<ThreadPool> pool_ = *ThreadPool::Make(2);
};

TEST_P(RopeTest, AgreesWithTheFormulaInLongDouble) {
  const RopeCase& c = GetParam();
  const auto table = *RopeTable::Make(
      {.head_dim = c.head_dim, .rotary_dim = c.rotary_dim, .base = c.base, .layout = c.layout});
  const std::vector<int64_t> positions = {0, 1, 2, 63, 1000, 4095, 131071, 999983, 1 << 20};
  const int64_t rows = static_cast<int64_t>(positions.size());
  constexpr int64_t kHeads = 3;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(rows * kHeads * c.head_dim));
  for (float& value : x) value = normal(random);
  std::vector<float> first;
  for (const Isa isa : RunnableIsas()) {
    const KernelContext context = {.table = KernelsFor(isa), .pool = *pool_};
    std::vector<float> cos_sin(static_cast<size_t>(rows * table.RowFloats()));
    ComputeRopeRows(context, {.table = table,
                              .positions = positions,
                              .cos_sin = {cos_sin.data(), rows, table.RowFloats()}});
    std::vector<float> out = x;
    ApplyRope(context, {.table = table,
                        .cos_sin = {cos_sin.data(), rows, table.RowFloats()},
                        .x = {out.data(), rows, kHeads * c.head_dim}});
    for (int64_t i = 0; i < rows * kHeads; ++i) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(i * c.head_dim);
      const std::vector<double> expected = RopeReference(
          {.x = {begin, begin + c.head_dim},
           .rotary_dim = c.rotary_dim,
           .interleaved = c.layout == RopeLayout::kInterleaved,
           .position = static_cast<long double>(positions[static_cast<size_t>(i / kHeads)]),
           .frequencies = PlainFrequencies(c.rotary_dim, c.base),
           .attention_factor = 1});
      double largest = 0;
      for (int64_t j = 0; j < c.head_dim; ++j) {
        largest = std::max(largest, std::fabs(static_cast<double>(begin[j])));
      }
      for (int64_t j = 0; j < c.head_dim; ++j) {
        const double got = static_cast<double>(out[static_cast<size_t>(i * c.head_dim + j)]);
        if (j >= c.rotary_dim) {
          ASSERT_EQ(got, expected[static_cast<size_t>(j)]);
        } else {
          // Two factors rounded once, one product, one fma.
          ASSERT_NEAR(got, expected[static_cast<size_t>(j)], 4 * 0x1p-24 * largest)
              << "position " << positions[static_cast<size_t>(i / kHeads)] << " component " << j;
        }
      }
    }
    if (first.empty()) first = out;
    EXPECT_EQ(std::memcmp(out.data(), first.data(), out.size() * sizeof(float)), 0) << IsaName(isa);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, RopeTest,
                         testing::Values(RopeCase{64, 64, 10000.0, RopeLayout::kInterleaved},
                                         RopeCase{64, 64, 100000.0, RopeLayout::kHalves},
                                         RopeCase{128, 128, 500000.0, RopeLayout::kInterleaved},
                                         RopeCase{256, 256, 1e6, RopeLayout::kHalves},
                                         RopeCase{80, 80, 10000.0, RopeLayout::kHalves},
                                         RopeCase{80, 20, 10000.0, RopeLayout::kHalves},
                                         RopeCase{96, 42, 10000.0, RopeLayout::kInterleaved},
                                         RopeCase{16, 2, 10000.0, RopeLayout::kInterleaved}));

void ExpectFrequencies(const RopeTable& table, const std::vector<long double>& expected) {
  ASSERT_EQ(table.frequencies().size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(table.frequencies()[i] / static_cast<double>(expected[i]), 1.0, 1e-14) << i;
  }
}

TEST(RopeScalingTest, Linear) {
  std::vector<long double> expected = PlainFrequencies(64, 10000);
  for (long double& f : expected) f /= 8;
  ExpectFrequencies(
      *RopeTable::Make(
          {.head_dim = 64, .rotary_dim = 64, .scaling = RopeScaling::kLinear, .factor = 8}),
      expected);
}

// By wave lengths, as the model's authors publish it.
TEST(RopeScalingTest, Llama3) {
  std::vector<long double> expected = PlainFrequencies(128, 500000);
  int num_mixed = 0;
  for (long double& f : expected) {
    const long double wave = kTwoPi / f;
    if (wave < 8192.0L / 4) continue;
    if (wave > 8192.0L / 1) {
      f /= 8;
      continue;
    }
    const long double smooth = (8192.0L / wave - 1) / (4 - 1);
    f = (1 - smooth) * f / 8 + smooth * f;
    ++num_mixed;
  }
  ASSERT_GT(num_mixed, 2);
  ExpectFrequencies(*RopeTable::Make({.head_dim = 128,
                                      .rotary_dim = 128,
                                      .base = 500000,
                                      .scaling = RopeScaling::kLlama3,
                                      .factor = 8,
                                      .original_context = 8192,
                                      .low_frequency_factor = 1,
                                      .high_frequency_factor = 4}),
                    expected);
}

TEST(RopeScalingTest, Yarn) {
  std::vector<long double> expected = PlainFrequencies(128, 1000000);
  // Pairs below `low` keep their frequency, pairs above `high` are divided: from the paper's
  // r(d) = L / wave length, beta 32 and 1, L = 32768: pair = 64 ln(L / (2 pi r)) / ln(base).
  const long double low = floorl(64 * logl(32768 / (kTwoPi * 32)) / logl(1000000));
  const long double high = ceill(64 * logl(32768 / kTwoPi) / logl(1000000));
  ASSERT_EQ(low, 23);
  ASSERT_EQ(high, 40);
  for (size_t i = 0; i < expected.size(); ++i) {
    const long double ramp =
        std::clamp((static_cast<long double>(i) - low) / (high - low), 0.0L, 1.0L);
    expected[i] = expected[i] / 4 * ramp + expected[i] * (1 - ramp);
  }
  const auto table = *RopeTable::Make({.head_dim = 128,
                                       .rotary_dim = 128,
                                       .base = 1000000,
                                       .scaling = RopeScaling::kYarn,
                                       .factor = 4,
                                       .original_context = 32768,
                                       .attention_factor = YarnAttentionFactor(4)});
  ExpectFrequencies(table, expected);
  // 0.1 ln 4 + 1; it scales cosine and sine.
  EXPECT_NEAR(YarnAttentionFactor(4), 1.138629436111989, 1e-15);
  EXPECT_EQ(YarnAttentionFactor(1), 1.0);
  std::vector<float> row(static_cast<size_t>(table.RowFloats()));
  table.ComputeRow(0, row.data());
  EXPECT_EQ(row[0], 1.1386294f);
}

TEST(RopeScalingTest, FrequencyFactorsDivide) {
  std::vector<float> factors(32);
  for (size_t i = 0; i < factors.size(); ++i) factors[i] = 1.0f + static_cast<float>(i);
  std::vector<long double> expected = PlainFrequencies(64, 10000);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] /= static_cast<long double>(factors[i]);
  ExpectFrequencies(
      *RopeTable::Make({.head_dim = 64, .rotary_dim = 64, .frequency_factors = factors}), expected);
}

TEST(RopeScalingTest, BadParametersAreRefused) {
  const std::vector<float> zeros(32, 0.0f);
  for (const RopeParams& params : {
           RopeParams{.head_dim = 64, .rotary_dim = 63},
           RopeParams{.head_dim = 64, .rotary_dim = 66},
           RopeParams{.head_dim = 64, .rotary_dim = 0},
           RopeParams{.head_dim = 64, .rotary_dim = 64, .base = 0.0},
           RopeParams{.head_dim = 64, .rotary_dim = 64, .base = std::nan("")},
           RopeParams{
               .head_dim = 64, .rotary_dim = 64, .scaling = RopeScaling::kLinear, .factor = 0},
           RopeParams{.head_dim = 64, .rotary_dim = 64, .scaling = RopeScaling::kYarn, .factor = 2},
           RopeParams{.head_dim = 64, .rotary_dim = 64, .attention_factor = -1.0},
           RopeParams{.head_dim = 64, .rotary_dim = 64, .frequency_factors = zeros},
           RopeParams{.head_dim = 32, .rotary_dim = 32, .frequency_factors = zeros},
       }) {
    const Result<RopeTable> table = RopeTable::Make(params);
    ASSERT_FALSE(table);
    EXPECT_EQ(table.error().code, ErrorCode::kInvalid);
  }
}

}  // namespace
}  // namespace baton
