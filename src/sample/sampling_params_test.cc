#include "sample/sampling_params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kVocabSize = 49152;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Change = std::function<void(SamplingParams&)>;

SamplingParams Changed(const Change& change) {
  SamplingParams params;
  change(params);
  return params;
}

TEST(SamplingParams, DefaultsAreValidAndChangeNothing) {
  EXPECT_TRUE(Validate(SamplingParams{}, 1).has_value());
  EXPECT_FALSE(SamplingParams{}.has_penalties());
}

// cases.md S-01: extreme values that have a meaning.
TEST(SamplingParams, AcceptsExtremesThatMakeSense) {
  for (const double temperature : {0.0, 1e-38, 1e-12, 1e-4, 1e9}) {
    EXPECT_TRUE(Validate(Changed([&](auto& p) { p.temperature = temperature; }), kVocabSize));
  }
  for (const double share : {0.0, 1e-8, 1.0}) {
    EXPECT_TRUE(Validate(Changed([&](auto& p) { p.top_p = share; }), kVocabSize));
    EXPECT_TRUE(Validate(Changed([&](auto& p) { p.min_p = share; }), kVocabSize));
  }
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{1'000'000'000}, INT64_MAX}) {
    EXPECT_TRUE(Validate(Changed([&](auto& p) { p.top_k = count; }), kVocabSize));
  }
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{5}, kVocabSize}) {
    EXPECT_TRUE(Validate(Changed([&](auto& p) { p.num_top_logprobs = count; }), kVocabSize));
  }
  EXPECT_TRUE(Validate(Changed([](auto& p) { p.penalty_window = INT64_MAX; }), kVocabSize));
  EXPECT_TRUE(Validate(Changed([](auto& p) { p.seed = UINT64_MAX; }), kVocabSize));
}

TEST(SamplingParams, OnlyTinyTemperaturesAreGreedy) {
  for (const double temperature : {0.0, 1e-38, 1e-12, 1e-4}) {
    EXPECT_TRUE(Changed([&](auto& p) { p.temperature = temperature; }).is_greedy());
  }
  EXPECT_FALSE(Changed([](auto& p) { p.temperature = 0.01; }).is_greedy());
}

// cases.md S-01, S-03, S-04: refused by name, with value and range.
TEST(SamplingParams, RefusalsNameFieldValueAndRange) {
  struct Case {
    const char* message;
    Change change;
  };
  const std::vector<Case> cases = {
      {"temperature must be in 0..1000000000, got -1", [](auto& p) { p.temperature = -1; }},
      {"temperature must be in 0..1000000000, got nan", [](auto& p) { p.temperature = kNaN; }},
      {"temperature must be in 0..1000000000, got inf", [](auto& p) { p.temperature = kInfinity; }},
      {"top_p must be in 0..1, got 1.5", [](auto& p) { p.top_p = 1.5; }},
      {"top_p must be in 0..1, got -0.5", [](auto& p) { p.top_p = -0.5; }},
      {"top_p must be in 0..1, got nan", [](auto& p) { p.top_p = kNaN; }},
      {"top_k must be at least 0 (0: off), got -1", [](auto& p) { p.top_k = -1; }},
      {"min_p must be in 0..1, got 2", [](auto& p) { p.min_p = 2; }},
      {"repetition_penalty must be above 0 and at most 100, got 0",
       [](auto& p) { p.repetition_penalty = 0; }},
      {"repetition_penalty must be above 0 and at most 100, got -1",
       [](auto& p) { p.repetition_penalty = -1; }},
      {"repetition_penalty must be above 0 and at most 100, got nan",
       [](auto& p) { p.repetition_penalty = kNaN; }},
      {"frequency_penalty must be in -2..2, got 2.5", [](auto& p) { p.frequency_penalty = 2.5; }},
      {"presence_penalty must be in -2..2, got -3", [](auto& p) { p.presence_penalty = -3; }},
      {"penalty_window must be at least 1, got 0", [](auto& p) { p.penalty_window = 0; }},
      {"penalty_window must be at least 1, got -1", [](auto& p) { p.penalty_window = -1; }},
      {"top_logprobs must be in 0..49152, got 1000000",
       [](auto& p) { p.num_top_logprobs = 1'000'000; }},
      {"top_logprobs must be in 0..49152, got -1", [](auto& p) { p.num_top_logprobs = -1; }},
      {"logit_bias: token id 49152 is not in 0..49151",
       [](auto& p) { p.logit_bias = {{.token = 49152, .bias = -5}}; }},
      {"logit_bias: token id -1 is not in 0..49151",
       [](auto& p) { p.logit_bias = {{.token = -1, .bias = 5}}; }},
      {"logit_bias: the bias of token id 12 must be in -100..100, got 1e+30",
       [](auto& p) { p.logit_bias = {{.token = 12, .bias = 1e30}}; }},
      {"logit_bias: the bias of token id 12 must be in -100..100, got nan",
       [](auto& p) { p.logit_bias = {{.token = 12, .bias = kNaN}}; }},
      {"logit_bias: token id 7 appears twice",
       [](auto& p) {
         p.logit_bias = {{7, 1.0}, {3, 1.0}, {7, 2.0}};
       }},
      {"logit_bias bans all 49152 tokens; leave one",
       [](auto& p) {
         for (TokenId token = 0; token < kVocabSize; ++token) p.logit_bias.push_back({token, -100});
       }},
  };
  for (const Case& c : cases) {
    const Result<> result = Validate(Changed(c.change), kVocabSize);
    ASSERT_FALSE(result.has_value()) << c.message;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
    EXPECT_EQ(result.error().message, c.message);
  }
}

TEST(SamplingParams, ManyBiasesAreFine) {
  SamplingParams params;
  for (TokenId token = 0; token < kVocabSize; ++token) params.logit_bias.push_back({token, -1.0});
  EXPECT_TRUE(Validate(params, kVocabSize).has_value());
}

}  // namespace
}  // namespace baton
