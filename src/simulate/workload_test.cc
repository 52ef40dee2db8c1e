#include "simulate/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "simulate/time_histogram.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

std::vector<int64_t> Draws(const char* text, int count) {
  const Result<LengthDistribution> parsed = LengthDistribution::Parse(text);
  EXPECT_TRUE(parsed.has_value()) << text;
  RandomStream random({.seed = 1, .stream = 0});
  std::vector<int64_t> draws;
  for (int i = 0; parsed && i < count; ++i) draws.push_back(parsed->Draw(random));
  return draws;
}

std::string Repeated(std::string_view text, int count) {
  std::string repeated;
  for (int i = 0; i < count; ++i) repeated += text;
  return repeated;
}

TEST(LengthDistribution, DrawsWhatIsWritten) {
  EXPECT_EQ(Draws("512", 3), (std::vector<int64_t>{512, 512, 512}));
  const std::vector<int64_t> uniform = Draws("10..13", 4000);
  for (const int64_t length : {10, 11, 12, 13}) {
    EXPECT_NEAR(static_cast<double>(std::ranges::count(uniform, length)), 1000, 120);
  }
  std::vector<int64_t> tail = Draws("lognormal:400,0.5", 10001);
  std::ranges::sort(tail);
  EXPECT_NEAR(static_cast<double>(tail[5000]), 400, 12);
  EXPECT_NEAR(static_cast<double>(tail[8413]), 400 * std::exp(0.5), 30);  // one sigma
  const std::vector<int64_t> parts = Draws("64=1,512=2.5,4096=0.5", 8000);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(parts, 64)), 2000, 160);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(parts, 512)), 5000, 200);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(parts, 4096)), 1000, 120);
}

TEST(LengthDistribution, RefusesTheRest) {
  std::string many = "1=1";
  for (int i = 0; i < 64; ++i) many += ",1=1";
  for (const std::string& text :
       {std::string(), std::string("0"), std::string("-1"), std::string("x"), std::string("5 "),
        std::string("10..9"), std::string("10.."), std::string("16777217"), std::string("1=0"),
        std::string("1=1,"), std::string("=1"), std::string("1="), std::string("1=nan"),
        std::string("lognormal:"), std::string("lognormal:5"), std::string("lognormal:0,1"),
        std::string("lognormal:5,6"), std::string("lognormal:5,1,1"), many}) {
    const Result<LengthDistribution> parsed = LengthDistribution::Parse(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(parsed.error().message, HasSubstr("not '" + text + "'"));
  }
}

TEST(Workload, ArrivalsArePoisson) {
  WorkloadOptions options;
  options.rate = 5;
  options.duration = 4000;
  const Workload workload = *GenerateWorkload(options);
  EXPECT_NEAR(static_cast<double>(workload.size()), 20000, 3 * std::sqrt(20000));
  // The gaps are exponential: mean 1/5, and their share above it 1/e.
  int above = 0;
  for (size_t i = 1; i < workload.size(); ++i) {
    ASSERT_GE(workload[i].seconds, workload[i - 1].seconds);
    above += workload[i].seconds - workload[i - 1].seconds > 0.2 ? 1 : 0;
  }
  EXPECT_NEAR(above / static_cast<double>(workload.size()), std::exp(-1.0), 0.012);
  EXPECT_LT(workload.back().seconds, 4000);
  EXPECT_EQ(*GenerateWorkload(options), workload);
}

TEST(Workload, BurstsPrefixesTurnsAndPriorities) {
  WorkloadOptions options;
  options.rate = 5;
  options.duration = 2000;
  options.burst = 10;
  options.prompt_tokens = *LengthDistribution::Parse("100");
  options.output_tokens = *LengthDistribution::Parse("7");
  options.prefix_share = 0.3;
  options.prefix_tokens = 50;
  options.num_prefixes = 4;
  options.turns = 3;
  options.think_seconds = 9;
  options.high_share = 0.1;
  const Workload workload = *GenerateWorkload(options);
  // 1,000 bursts of 10 chats of 3 turns.
  EXPECT_NEAR(static_cast<double>(workload.size()), 30000, 3 * 30 * std::sqrt(1000));
  int with_prefix = 0;
  int high = 0;
  std::set<uint64_t> prefixes;
  std::set<uint64_t> streams;
  for (size_t i = 0; i < workload.size(); ++i) {
    const Arrival& arrival = workload[i];
    streams.insert(arrival.stream);
    const auto turn = static_cast<int64_t>(i % 3);
    EXPECT_EQ(arrival.prompt_tokens, arrival.prefix_tokens + 100 + turn * 107);
    EXPECT_EQ(arrival.follows, turn == 0 ? -1 : static_cast<int64_t>(i) - 1);
    if (turn > 0) {
      EXPECT_EQ(arrival.seconds, 9);
      EXPECT_EQ(arrival.stream, workload[i - 1].stream);
    } else if (i % 30 != 0) {
      EXPECT_EQ(arrival.seconds, workload[i - 3].seconds);
    }
    with_prefix += arrival.prefix_tokens == 50 ? 1 : 0;
    if (arrival.prefix_tokens > 0) prefixes.insert(arrival.prefix);
    high += arrival.priority;
  }
  const auto count = static_cast<double>(workload.size());
  EXPECT_EQ(streams.size(), workload.size() / 3);
  EXPECT_NEAR(with_prefix / count, 0.3, 0.02);
  EXPECT_NEAR(high / count, 0.1, 0.02);
  EXPECT_EQ(prefixes, (std::set<uint64_t>{0, 1, 2, 3}));
}

TEST(Workload, IsNotEndless) {
  WorkloadOptions options;
  options.rate = 1e6;
  options.duration = 1e6;
  options.burst = 1000;
  options.turns = 100000;
  const Result<Workload> workload = GenerateWorkload(options);
  ASSERT_FALSE(workload.has_value());
  EXPECT_EQ(workload.error().code, ErrorCode::kExhausted);
}

TEST(Workload, ReadsLines) {
  const Result<Workload> workload = ParseWorkload(
      "{\"arrival\": 1.5, \"prompt_tokens\": 10, \"output_tokens\": 3}\n\n"
      "{\"arrival\": 2, \"prompt_tokens\": 90, \"output_tokens\": 1, \"prefix\": 4, "
      "\"prefix_tokens\": 64, \"priority\": -2, \"cancel_after\": 0.5, \"chat\": 6}\r\n"
      "{\"arrival\": 0, \"prompt_tokens\": 99, \"output_tokens\": 1, \"chat\": 6, \"follows\": 1}");
  ASSERT_TRUE(workload.has_value()) << workload.error().message;
  ASSERT_EQ(workload->size(), 3u);
  EXPECT_EQ((*workload)[0].seconds, 1.5);
  EXPECT_EQ((*workload)[0].prompt_tokens, 10);
  EXPECT_EQ((*workload)[0].output_tokens, 3);
  EXPECT_TRUE(std::isinf((*workload)[0].cancel_after));
  EXPECT_EQ((*workload)[1], (Arrival{.seconds = 2,
                                     .prompt_tokens = 90,
                                     .output_tokens = 1,
                                     .stream = 6,
                                     .prefix = 4,
                                     .prefix_tokens = 64,
                                     .priority = -2,
                                     .cancel_after = 0.5}));
  EXPECT_EQ((*workload)[2].follows, 1);
  EXPECT_NE((*workload)[0].stream, 6u);
  EXPECT_TRUE(ParseWorkload("")->empty());
}

TEST(Workload, RefusesLinesThatMeanNothing) {
  const std::string good = "\"arrival\": 1, \"prompt_tokens\": 10, \"output_tokens\": 3";
  const struct {
    std::string line;
    std::string blamed;
  } cases[] = {
      {"[1]", "is not a JSON object"},
      {"{", "is not a JSON object"},
      {"{\"prompt_tokens\": 10, \"output_tokens\": 3}", "'arrival' is missing"},
      {"{\"arrival\": 1, \"output_tokens\": 3}", "'prompt_tokens' is missing"},
      {"{\"arrival\": -1, \"prompt_tokens\": 10, \"output_tokens\": 3}",
       "'arrival' must be seconds from 0 to 1000000000, not -1"},
      {"{\"arrival\": \"1\", \"prompt_tokens\": 10, \"output_tokens\": 3}",
       "'arrival' must be seconds from 0 to 1000000000, not \"1\""},
      {"{\"arrival\": 1, \"prompt_tokens\": 0, \"output_tokens\": 3}",
       "'prompt_tokens' must be a whole number from 1 to 16777216, not 0"},
      {"{\"arrival\": 1, \"prompt_tokens\": 1.5, \"output_tokens\": 3}",
       "'prompt_tokens' must be a whole number from 1 to 16777216, not 1.5"},
      {"{\"arrival\": 1, \"prompt_tokens\": 18446744073709551615, \"output_tokens\": 3}",
       "'prompt_tokens' must"},
      {"{" + good + ", \"prefix_tokens\": 11}", "no more"},
      {"{" + good + ", \"prefix\": 7}", "'prefix' goes with 'prefix_tokens' only"},
      {"{" + good + ", \"follows\": 1}", "'follows' must be a whole number from 0 to 0"},
      {"{" + good + ", \"follows\": -1}", "'follows' must be a whole number from 0 to 0"},
      {"{" + good + ", \"arrival\": 2}", "'arrival' stands twice"},
      {"{" + good + ", \"priority\": 1e999}", "has a number that is too large"},
      {"{" + good + ", \"priority\": 1001}", "'priority' must be"},
      {"{" + good + ", \"promt\": 1}",
       "'promt' means nothing here; a request has arrival, prompt_tokens, output_tokens, prefix"},
      {"{" + good + ", \"prefx\": 1}", "; did you mean 'prefix'?"},
      {"{" + good + ", \"priority\": [" + std::string(100'000, '[') + std::string(100'000, ']') +
           "]}",
       "not a list"},
      {"{" + good + ", \"priority\": \"" + std::string(1000, 'x') + "\"}", "xxx..."},
      // Cut between two characters: the quote and 98 bytes of them are 99.
      {"{" + good + ", \"priority\": \"" + Repeated("\u00fc", 500) + "\"}",
       "not \"" + Repeated("\u00fc", 49) + "..."},
      {"{" + good + ", \"x" + Repeated("\u00fc", 500) + "\": 1}",
       "'x" + Repeated("\u00fc", 49) + "...' means nothing here"},
      {"{" + good + ", \"priority\": {}}", "not an object"},
  };
  const Result<Workload> first = ParseWorkload("{" + good + ", \"follows\": 0}");
  ASSERT_FALSE(first.has_value());
  EXPECT_THAT(first.error().message, HasSubstr("line 1: 'follows' names an earlier request"));
  for (const auto& test : cases) {
    const Result<Workload> workload = ParseWorkload("{" + good + "}\n" + test.line);
    ASSERT_FALSE(workload.has_value()) << test.line;
    EXPECT_EQ(workload.error().code, ErrorCode::kCorrupt);
    EXPECT_THAT(workload.error().message, HasSubstr("line 2: "));
    EXPECT_THAT(workload.error().message, HasSubstr(test.blamed));
  }
}

TEST(TimeHistogram, QuantilesAreWithinAHundredth) {
  TimeHistogram histogram;
  EXPECT_EQ(histogram.Quantile(0.5), 0);
  std::vector<double> values;
  RandomStream random({.seed = 5, .stream = 0});
  for (int i = 0; i < 10001; ++i) {
    values.push_back(1e-5 * std::exp(18 * random.NextUniform()));
    histogram.Add(values.back());
  }
  std::ranges::sort(values);
  for (const double share : {0.0, 0.1, 0.5, 0.9, 0.99, 1.0}) {
    const auto rank = static_cast<size_t>(std::max(1.0, std::ceil(share * 10001))) - 1;
    EXPECT_GE(histogram.Quantile(share), values[rank] * (1 - 1e-12)) << share;
    EXPECT_LE(histogram.Quantile(share), values[rank] * 1.01) << share;
  }
  EXPECT_EQ(histogram.max(), values.back());
  TimeHistogram ends;
  for (const double seconds : {0.0, 1e-9, 1e30}) ends.Add(seconds);
  EXPECT_EQ(ends.count(), 3);
  EXPECT_LE(ends.Quantile(0.5), 1e-6);
  EXPECT_EQ(ends.Quantile(1.0), 1e30);
}

TEST(TimeHistogram, LongTimesAreToldApart) {
  TimeHistogram histogram;
  for (const double seconds : {1e8, 2e9, 3e15, 4e18}) histogram.Add(seconds);
  EXPECT_NEAR(histogram.Quantile(0.25), 1e8, 1e8 * 0.008);
  EXPECT_NEAR(histogram.Quantile(0.5), 2e9, 2e9 * 0.008);
  EXPECT_NEAR(histogram.Quantile(0.75), 3e15, 3e15 * 0.008);
  EXPECT_EQ(histogram.Quantile(1), 4e18);
}

TEST(TimeHistogram, MergedAreAsOne) {
  TimeHistogram all;
  TimeHistogram parts[2];
  RandomStream random({.seed = 6, .stream = 0});
  for (int i = 0; i < 1000; ++i) {
    const double seconds = 1e3 * random.NextUniform();
    all.Add(seconds);
    parts[i % 3 == 0 ? 0 : 1].Add(seconds);
  }
  parts[0].Merge(parts[1]);
  EXPECT_EQ(parts[0].count(), 1000);
  EXPECT_NEAR(parts[0].sum(), all.sum(), 1e-9 * all.sum());
  EXPECT_EQ(parts[0].max(), all.max());
  for (const double share : {0.1, 0.5, 0.9, 1.0}) {
    EXPECT_EQ(parts[0].Quantile(share), all.Quantile(share));
  }
}

}  // namespace
}  // namespace baton
