#include "bench/serve_suite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

namespace baton {
namespace {

using ::testing::HasSubstr;

// All amounts with four and more digits.
ServeReport LargeReport() {
  ServeReport report;
  report.model_name = "Tiny";
  report.num_threads = 2;
  report.prompt_tokens = 12345;
  report.shared_tokens = 2345;
  report.output_tokens = 1024;
  report.limits = {.ttft = 2, .gap = 0.2};
  report.rows.push_back({.clients = 1024,
                         .num_requests = 100000,
                         .num_refused = 4321,
                         .seconds = 1234.5,
                         .ttft = {{.p50 = 1.5, .p90 = 2, .p99 = 9.9999, .max = 4000}},
                         .gaps = {{.p50 = 0.25, .p90 = 2, .p99 = 1.25, .max = 4000}},
                         .output_rate = 1234.4,
                         .prompt_rate = 98765.4,
                         .good_share = 0.5,
                         .preemptions = 5678,
                         .mean_running = 16});
  report.long_rows.push_back({.clients = 1024,
                              .prompt_tokens = 30000,
                              .alone_ttft = 2.5,
                              .ttft = 5,
                              .gap_before = 0.1,
                              .gap_after = 0.1,
                              .longest_gap = 1.1,
                              .longest_gap_steps = 11});
  return report;
}

TEST(ArrivalsOf, BeginAtOnceAndComeAtTheRate) {
  constexpr int64_t kRequests = 10'000;
  const std::vector<double> arrivals = ArrivalsOf(kRequests, {.rate = 0.5, .seed = 3});
  ASSERT_EQ(std::ssize(arrivals), kRequests);
  EXPECT_EQ(arrivals.front(), 0);
  EXPECT_TRUE(std::ranges::is_sorted(arrivals));
  // Of exponential gaps the mean and the standard deviation are equal: 2 s. Their mean over so
  // many has 1% of that as its own deviation.
  std::vector<double> gaps;
  double squares = 0;
  for (size_t i = 1; i < arrivals.size(); ++i) {
    gaps.push_back(arrivals[i] - arrivals[i - 1]);
    squares += (gaps.back() - 2) * (gaps.back() - 2);
  }
  EXPECT_NEAR(arrivals.back() / static_cast<double>(gaps.size()), 2, 5 * 0.02);
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(gaps.size())), 2, 0.2);
}

TEST(ArrivalsOf, AreAFunctionOfSeedAndRate) {
  const std::vector<double> arrivals = ArrivalsOf(20, {.rate = 4, .seed = 1});
  EXPECT_EQ(ArrivalsOf(20, {.rate = 4, .seed = 1}), arrivals);
  EXPECT_NE(ArrivalsOf(20, {.rate = 4, .seed = 2}), arrivals);
  // More requests are the same ones and others; half the rate takes twice the time.
  const std::vector<double> more = ArrivalsOf(30, {.rate = 2, .seed = 1});
  for (size_t i = 0; i < arrivals.size(); ++i) EXPECT_DOUBLE_EQ(more[i], 2 * arrivals[i]);
}

TEST(ServeAsText, AmountsHaveDigitsInGroups) {
  const std::string text = ServeAsText(LargeReport(), 0);
  EXPECT_THAT(text, HasSubstr("\nrequests     12,345 tokens, 2,345 of them shared; "
                              "answers of 1,024\n"));
  EXPECT_THAT(text, HasSubstr("\ngood         first token within 2,000.0 ms, no gap above 200.0 ms"
                              "\n"));
  EXPECT_THAT(text,
              HasSubstr("\n"
                        "load           requests    ttft p50         p99   gap p50         p99   "
                        " longest  tokens/s  prompt/s   good\n"
                        "1,024 clients   100,000  1,500.0 ms  9,999.9 ms  250.0 ms  1,250.0 ms  "
                        "4,000.0 s     1,234    98,765  50.0%\n"));
  EXPECT_THAT(text, HasSubstr("\n"
                              "load           refused  seconds  in a step  cached  preempted"));
  EXPECT_THAT(text, HasSubstr("\n"
                              "1,024 clients    4,321  1,234.5       16.0    0.0%      5,678"));
  EXPECT_THAT(text, HasSubstr("\n"
                              "streams  long prompt  ttft alone        ttft"));
  EXPECT_THAT(text, HasSubstr("\n"
                              "  1,024       30,000  2,500.0 ms  5,000.0 ms"));
}

// Answers of one token have no gaps, and where all are refused there is no first token.
TEST(ServeAsText, WhatWasNotMeasuredIsADash) {
  ServeReport report = LargeReport();
  report.rows[0].gaps.reset();
  EXPECT_THAT(ServeAsText(report, 0), HasSubstr("9,999.9 ms        -    -        -     1,234"));
  EXPECT_THAT(ServeAsJson(report), HasSubstr("\"gap_seconds\": null"));
  EXPECT_EQ(ServeAsSvg(report).find("nan"), std::string::npos);
}

TEST(ServeAsText, FitsAScreen) {
  for (const size_t columns : {40u, 60u, 80u}) {
    std::istringstream text(ServeAsText(LargeReport(), columns));
    for (std::string line; std::getline(text, line);) EXPECT_LE(line.size(), columns) << line;
  }
}

}  // namespace
}  // namespace baton
