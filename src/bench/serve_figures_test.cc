#include "bench/serve_figures.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <vector>

namespace baton {
namespace {

TEST(PercentilesOf, NearestRank) {
  EXPECT_FALSE(PercentilesOf({}).has_value());
  std::vector<double> values(200);
  std::iota(values.rbegin(), values.rend(), 1);
  const std::optional<Percentiles> percentiles = PercentilesOf(values);
  ASSERT_TRUE(percentiles.has_value());
  EXPECT_EQ(percentiles->p50, 100);
  EXPECT_EQ(percentiles->p90, 180);
  EXPECT_EQ(percentiles->p99, 198);
  EXPECT_EQ(percentiles->max, 200);
}

// Streams of a token each second, of two seconds once a prompt was read. The steps in between are
// as long as the time at which they end asks for, but one gap is 6 s.
TEST(FindGaps, AreTakenInStepsOfTheirTime) {
  const std::vector<double> streams[] = {{10, 11, 12, 18, 20, 22, 24, 26, 28},
                                         {10, 11, 12, 13.5, 15, 17, 22.5, 25, 27}};
  LongPromptRow row;
  FindGaps(streams, {.begin = 12, .end = 22}, row);
  EXPECT_EQ(row.gap_before, 1);
  EXPECT_EQ(row.gap_after, 2);
  EXPECT_EQ(row.longest_gap, 6);
  // At 18 of 12 .. 22 a step takes 1.6 s: 6 / 1.6 = 3.75; at 22.5 it takes 2: 5.5 / 2 = 2.75.
  EXPECT_DOUBLE_EQ(row.longest_gap_steps, 3.75);
}

}  // namespace
}  // namespace baton
