#include "evaluate/log_sum_exp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace baton {
namespace {

class LogSumExpTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { pool_ = ThreadPool::Make(GetParam()).value(); }
  double Of(const std::vector<float>& logits) { return LogSumExp(logits, *pool_, partials_); }

  std::unique_ptr<ThreadPool> pool_;
  std::vector<double> partials_;
};

TEST_P(LogSumExpTest, MatchesLongDouble) {
  for (const size_t size : {1, 2, 4095, 4096, 4097, 49152}) {
    std::vector<float> logits(size);
    uint32_t state = 12345;
    for (float& logit : logits) {
      state = state * 1664525u + 1013904223u;
      logit = static_cast<float>(state >> 8) / 16777216.0f * 60.0f - 30.0f;
    }
    long double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
    EXPECT_NEAR(Of(logits), static_cast<double>(std::log(sum)), 1e-12) << size;
  }
}

TEST_P(LogSumExpTest, SurvivesExtremes) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_DOUBLE_EQ(Of({3e38f, -3e38f}), static_cast<double>(3e38f));
  EXPECT_NEAR(Of({0.0f, -kInfinity, std::nanf(""), 0.0f}), std::log(2.0), 1e-15);
  EXPECT_EQ(Of({-kInfinity, -kInfinity}), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(Of({}), -std::numeric_limits<double>::infinity());
}

INSTANTIATE_TEST_SUITE_P(Threads, LogSumExpTest, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace baton
