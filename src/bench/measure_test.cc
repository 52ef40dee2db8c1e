#include "bench/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace baton {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::SizeIs;

// Moves only when a work says so.
class ManualWorkClock final : public WorkClock {
 public:
  double NowSeconds() override { return now_; }
  void Advance(double seconds) { now_ += seconds; }

 private:
  double now_ = 0;
};

TEST(SummaryTest, OfKnownNumbers) {
  const std::vector<double> samples = {5, 1, 4, 2, 3};
  const Summary summary = Summarize(samples);
  EXPECT_EQ(summary.median, 3);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.max, 5);
  EXPECT_EQ(summary.count, 5);
  EXPECT_DOUBLE_EQ(summary.spread, 2.0 / 3);  // quartiles 2 and 4
}

TEST(SummaryTest, BetweenTwoSamplesLiesTheMean) {
  const std::vector<double> samples = {2, 10};
  EXPECT_EQ(Summarize(samples).median, 6);
  const std::vector<double> one = {7};
  EXPECT_EQ(Summarize(one).median, 7);
  EXPECT_EQ(Summarize(one).spread, 0);
}

TEST(SummaryTest, OneDisturbedSampleMovesNoMedian) {
  const std::vector<double> samples = {1, 1, 100, 1, 1};
  EXPECT_EQ(Summarize(samples).median, 1);
  EXPECT_EQ(Summarize(samples).spread, 0);
  EXPECT_EQ(Summarize(samples).max, 100);
}

TEST(MedianRatioTest, AChangeThatTakesBothCancelsOut) {
  // The machine becomes three times slower half way: both works do, and the ratio stays 2.
  const std::vector<double> work = {2, 2, 6, 6};
  const std::vector<double> limit = {1, 1, 3, 3};
  EXPECT_EQ(MedianRatio(work, limit), 2);
}

TEST(TimeInTurnTest, LongWorkRunsOncePerSample) {
  ManualWorkClock clock;
  std::string order;
  const std::vector<std::function<void()>> works = {[&] {
                                                      clock.Advance(0.5);
                                                      order += 'a';
                                                    },
                                                    [&] {
                                                      clock.Advance(0.25);
                                                      order += 'b';
                                                    }};
  const std::vector<Samples> samples = TimeInTurn(
      works, clock, {.sample_seconds = 0.01, .min_seconds = 0, .min_rounds = 3, .max_rounds = 9});
  ASSERT_THAT(samples, SizeIs(2));
  EXPECT_THAT(samples[0], SizeIs(3));
  EXPECT_THAT(samples[0], Each(DoubleNear(0.5, 1e-12)));
  EXPECT_THAT(samples[1], Each(DoubleNear(0.25, 1e-12)));
  EXPECT_TRUE(order.ends_with("ababab")) << order;
}

TEST(TimeInTurnTest, ShortWorkIsRepeatedWithinASample) {
  ManualWorkClock clock;
  int64_t runs = 0;
  const std::vector<std::function<void()>> works = {[&] {
    clock.Advance(1e-5);
    ++runs;
  }};
  const std::vector<Samples> samples = TimeInTurn(
      works, clock, {.sample_seconds = 0.01, .min_seconds = 0, .min_rounds = 5, .max_rounds = 5});
  EXPECT_THAT(samples[0], SizeIs(5));
  EXPECT_THAT(samples[0], Each(DoubleNear(1e-5, 1e-9)));
  EXPECT_GE(runs, 5 * 1000);
  EXPECT_LE(runs, 10 * 1000);
}

TEST(TimeInTurnTest, GoesOnUntilTheTimeIsEnoughAndNoFurtherThanTheMost) {
  ManualWorkClock clock;
  const std::vector<std::function<void()>> works = {[&] { clock.Advance(0.1); }};
  const TimingOptions until_a_second = {
      .sample_seconds = 0.01, .min_seconds = 0.95, .min_rounds = 2, .max_rounds = 100};
  EXPECT_THAT(TimeInTurn(works, clock, until_a_second)[0], SizeIs(10));
  const TimingOptions at_most_four = {
      .sample_seconds = 0.01, .min_seconds = 0.95, .min_rounds = 2, .max_rounds = 4};
  EXPECT_THAT(TimeInTurn(works, clock, at_most_four)[0], SizeIs(4));
  const TimingOptions impatient = {.sample_seconds = 0.01,
                                   .min_seconds = 0.95,
                                   .max_seconds = 0.15,
                                   .min_rounds = 7,
                                   .max_rounds = 100};
  EXPECT_THAT(TimeInTurn(works, clock, impatient)[0], SizeIs(2));
}

TEST(WorkClockTest, SleepCountsOnTheWallOnly) {
  ThreadCpuClock cpu;
  WallClock wall;
  const double cpu_start = cpu.NowSeconds();
  const double wall_start = wall.NowSeconds();
  const timespec pause{.tv_sec = 0, .tv_nsec = 20'000'000};
  nanosleep(&pause, nullptr);
  EXPECT_GE(wall.NowSeconds() - wall_start, 0.02);
  EXPECT_LT(cpu.NowSeconds() - cpu_start, 0.02);
}

}  // namespace
}  // namespace baton
