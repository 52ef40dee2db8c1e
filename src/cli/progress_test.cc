#include "cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "base/number_text.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kSecondNs = 1'000'000'000;

TEST(RenderProgress, ShowsShareAmountRateAndTimeLeft) {
  const std::string line = RenderProgress({.what = "Reading the prompt",
                                           .unit = ProgressUnit::kTokens,
                                           .done = 1500,
                                           .total = 6000,
                                           .elapsed_seconds = 5.0,
                                           .columns = 200});
  EXPECT_EQ(line,
            "Reading the prompt  25 %  [======>                 ]  1,500 of 6,000 tokens  "
            "300.0 tokens/s  15.0 s left");
}

// Who waits for minutes wants to know how long: the time left is the last to go.
TEST(RenderProgress, ATerminalOf80ColumnsShowsTheTimeLeft) {
  ProgressMoment moment{.what = "Tuning",
                        .unit = ProgressUnit::kTokens,
                        .done = 123'456,
                        .total = 1'234'567,
                        .elapsed_seconds = 440,
                        .columns = 80};
  EXPECT_EQ(RenderProgress(moment),
            "Tuning  10 %  [=>               ]  123,456 of 1,234,567 tokens  1 h 06 min left");
  moment.columns = 50;
  EXPECT_EQ(RenderProgress(moment), "Tuning  10 %  [=>              ]  1 h 06 min left");
  moment.columns = 32;
  EXPECT_EQ(RenderProgress(moment), "Tuning  10 %  1 h 06 min left");
  moment.columns = 20;
  EXPECT_EQ(RenderProgress(moment), "Tuning  10 %");
}

TEST(RenderProgress, RequestsAreCounted) {
  ProgressMoment moment{.what = "16 clients",
                        .unit = ProgressUnit::kRequests,
                        .done = 1'000,
                        .total = 4'000,
                        .elapsed_seconds = 10,
                        .columns = 200};
  EXPECT_EQ(ProgressLine(moment), "16 clients  25 %  1,000 of 4,000 requests  30.0 s left");
  // What waits for others is not sooner done, whatever the rate so far.
  moment.least_left_seconds = 25;
  EXPECT_EQ(ProgressLine(moment), "16 clients  25 %  1,000 of 4,000 requests  30.0 s left");
  moment.least_left_seconds = 31'000;
  EXPECT_EQ(ProgressLine(moment), "16 clients  25 %  1,000 of 4,000 requests  8 h 36 min left");
  moment.done = 0;
  EXPECT_EQ(ProgressLine(moment), "16 clients   0 %  0 of 4,000 requests  8 h 36 min left");
}

TEST(Progress, APipeGetsALineNowAndThenIfTheWorkTakesLong) {
  ManualClock clock;
  StringOutput out;
  StringOutput lines;
  StatusLine line(out, false, nullptr);
  Progress progress(line, clock, {.what = "Tuning", .columns = 80, .lines = &lines});
  int64_t done = 0;
  for (int second = 0; second < 75; ++second) {
    clock.AdvanceNs(kSecondNs);
    progress.Update(done += 100, 30'000);
  }
  progress.Clear();
  EXPECT_EQ(lines.text(),
            "Tuning   3 %  1,000 of 30,000 tokens  100.0 tokens/s  4 min 50 s left\n"
            "Tuning  13 %  4,000 of 30,000 tokens  100.0 tokens/s  4 min 20 s left\n"
            "Tuning  23 %  7,000 of 30,000 tokens  100.0 tokens/s  3 min 50 s left\n");
  EXPECT_EQ(out.text(), "");
}

TEST(RenderProgress, LeavesOutWhatDoesNotFit) {
  for (int columns = 1; columns < 120; ++columns) {
    const std::string line = RenderProgress({.what = "Loading",
                                             .unit = ProgressUnit::kBytes,
                                             .done = 5 << 20,
                                             .total = 10 << 20,
                                             .elapsed_seconds = 1.0,
                                             .columns = columns});
    EXPECT_LT(line.size(), static_cast<size_t>(columns));
  }
}

TEST(RenderProgress, NothingKnownYetAndTooMuchDone) {
  EXPECT_THAT(RenderProgress({.what = "Loading", .unit = ProgressUnit::kBytes}), HasSubstr("0 %"));
  EXPECT_THAT(RenderProgress({.what = "Loading",
                              .unit = ProgressUnit::kBytes,
                              .done = 20,
                              .total = 10,
                              .elapsed_seconds = 1.0}),
              HasSubstr("100 %"));
}

TEST(Progress, WaitsASecondAndClearsUpBehindItself) {
  ManualClock clock;
  StringOutput out;
  StatusLine line(out, true, nullptr);
  {
    Progress progress(line, clock, {.what = "Loading", .unit = ProgressUnit::kBytes});
    progress.Update(1, 10);
    clock.AdvanceNs(kSecondNs - 1);
    progress.Update(2, 10);
    EXPECT_EQ(out.text(), "");
    clock.AdvanceNs(1);
    progress.Update(3, 10);
    EXPECT_THAT(out.text(), HasSubstr("30 %"));
    clock.AdvanceNs(kSecondNs / 100);
    progress.Update(4, 10);
    EXPECT_THAT(out.text(), Not(HasSubstr("40 %")));
  }
  EXPECT_TRUE(out.text().ends_with("\r\x1b[K"));
}

TEST(Progress, APipeSeesNothing) {
  ManualClock clock;
  StringOutput out;
  StatusLine line(out, false, nullptr);
  {
    Progress progress(line, clock, {.what = "Loading", .unit = ProgressUnit::kBytes});
    clock.AdvanceNs(10 * kSecondNs);
    progress.Update(3, 10);
  }
  EXPECT_EQ(out.text(), "");
}

TEST(NumberText, ReadsAsPeopleWriteIt) {
  EXPECT_EQ(CountText(0), "0");
  EXPECT_EQ(CountText(999), "999");
  EXPECT_EQ(CountText(1000), "1,000");
  EXPECT_EQ(CountText(-1234567), "-1,234,567");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(98362432), "93.8 MiB");
  EXPECT_EQ(BytesText((uint64_t{1} << 30) - 1), "1.0 GiB");
  EXPECT_EQ(DurationText(4.25), "4.2 s");
  EXPECT_EQ(DurationText(65), "1 min 05 s");
  EXPECT_EQ(DurationText(7800), "2 h 10 min");
  EXPECT_EQ(DurationText(-1), "?");
}

TEST(NumberText, FloatsReadBackTheSame) {
  for (const float value : {0.1f, -16.7301407f, 1e-38f, 3.4028235e38f, 0.0f, 1.0f / 3.0f}) {
    EXPECT_EQ(std::strtof(FloatJson(value).c_str(), nullptr), value);
  }
  EXPECT_EQ(FloatJson(-std::numeric_limits<float>::infinity()), "null");
  EXPECT_EQ(FloatJson(std::numeric_limits<float>::quiet_NaN()), "null");
}

}  // namespace
}  // namespace baton
