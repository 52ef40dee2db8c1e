#include "sample/vocabulary_scan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace baton {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kSizes[] = {1, 7, 8, 9, 511, 512, 513, 3000};

TEST(VocabularyScan, LoadsAndFindsTheGreatestWhereverItStands) {
  RandomStream random({.seed = 1, .stream = 0});
  for (const int64_t size : kSizes) {
    for (int round = 0; round < 20; ++round) {
      std::vector<float> logits(size);
      for (float& logit : logits) logit = static_cast<float>(random.NextNormal());
      logits[random.NextBelow(size)] = std::numeric_limits<float>::quiet_NaN();
      const auto place = static_cast<int64_t>(random.NextBelow(size));
      logits[place] = 100.0f;
      std::vector<double> values(size);
      EXPECT_EQ(LoadLogits(logits, values), 100.0);
      EXPECT_EQ(FirstIndexOf(values, 100.0), place);
      for (int64_t i = 0; i < size; ++i) {
        EXPECT_EQ(values[i], std::isnan(logits[i]) ? -kInfinity : static_cast<double>(logits[i]));
      }
    }
  }
}

TEST(VocabularyScan, NothingFiniteIsMinusInfinity) {
  for (const int64_t size : kSizes) {
    const std::vector<float> logits(size, std::numeric_limits<float>::quiet_NaN());
    std::vector<double> values(size);
    EXPECT_EQ(LoadLogits(logits, values), -kInfinity);
  }
}

TEST(VocabularyScan, SumOfExpAgreesWithExtendedPrecision) {
  RandomStream random({.seed = 2, .stream = 0});
  std::vector<double> scratch(kScanBlock);
  for (const int64_t size : kSizes) {
    std::vector<double> values(size);
    for (double& value : values) value = 4.0 * random.NextNormal() + 50.0;
    values[size / 2] = -kInfinity;
    values[0] = 90.0;
    long double expected = 0.0L;
    for (const double value : values) expected += std::exp(static_cast<long double>(value) - 90.0L);
    const double sum = SumOfExp(values, 90.0, scratch);
    EXPECT_NEAR(sum, static_cast<double>(expected), 1e-13 * sum);
  }
}

}  // namespace
}  // namespace baton
