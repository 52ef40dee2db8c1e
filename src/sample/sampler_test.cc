#include "sample/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "base/rng.h"
#include "base/test_allocation_count.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> RandomLogits(int64_t vocab_size, uint64_t seed) {
  RandomStream random({.seed = seed, .stream = 77});
  std::vector<float> logits(vocab_size);
  for (float& logit : logits) logit = static_cast<float>(4.0 * random.NextNormal());
  return logits;
}

// Samples with a history of `position` tokens, all 0, all of them prompt.
SampledToken SampleAt(Sampler& sampler, const std::vector<float>& logits,
                      const SamplingParams& params, int64_t position) {
  EXPECT_TRUE(Validate(params, sampler.vocab_size()).has_value());
  const std::vector<TokenId> tokens(position, 0);
  const auto token = sampler.Sample(logits, params, {.tokens = tokens, .num_prompt = position});
  if (!token) {
    ADD_FAILURE() << token.error().message;
    return {};
  }
  return *token;
}

// The formula, slowly: probabilities of the kept tokens in 80-bit arithmetic with the C library's
// exp, everything sorted, nothing clever.
std::map<TokenId, long double> ReferenceDistribution(const std::vector<float>& logits,
                                                     const SamplingParams& params) {
  std::vector<std::pair<long double, TokenId>> ranked;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == -kInfinity) continue;
    long double logit = logits[i];
    bool is_banned = false;
    for (const LogitBias& entry : params.logit_bias) {
      if (entry.token != static_cast<TokenId>(i)) continue;
      logit += entry.bias;
      is_banned = entry.bias == -100.0;
    }
    if (is_banned) continue;
    ranked.push_back({-logit / params.temperature, static_cast<TokenId>(i)});
  }
  std::sort(ranked.begin(), ranked.end());
  if (params.top_k > 0 && std::ssize(ranked) > params.top_k) ranked.resize(params.top_k);
  long double total = 0.0L;
  for (const auto& [negative, id] : ranked) total += std::exp(ranked[0].first - negative);
  std::map<TokenId, long double> kept;
  long double sum = 0.0L;
  for (const auto& [negative, id] : ranked) {
    if (params.top_p < 1.0 && !kept.empty() && sum >= params.top_p * total) break;
    const long double weight = std::exp(ranked[0].first - negative);
    sum += weight;
    if (weight >= params.min_p) kept[id] = weight;
  }
  long double kept_total = 0.0L;
  for (const auto& [id, weight] : kept) kept_total += weight;
  for (auto& [id, weight] : kept) weight /= kept_total;
  return kept;
}

std::vector<SamplingParams> FilterSettings() {
  std::vector<SamplingParams> all;
  for (const double temperature : {0.3, 1.0, 2.0}) {
    for (const int64_t top_k : {0, 1, 5, 40, 5000}) {
      for (const double top_p : {0.0, 1e-8, 0.5, 0.95, 0.9999999, 1.0}) {
        for (const double min_p : {0.0, 0.05, 1.0}) {
          SamplingParams params;
          params.temperature = temperature;
          params.top_k = top_k;
          params.top_p = top_p;
          params.min_p = min_p;
          all.push_back(params);
        }
      }
    }
  }
  return all;
}

TEST(Sampler, KeepsAndWeighsAsTheFormulaSays) {
  constexpr int64_t kVocabSize = 3000;
  Sampler sampler(kVocabSize);
  for (const uint64_t seed : {1, 2}) {
    std::vector<float> logits = RandomLogits(kVocabSize, seed);
    logits[3] = kNaN;
    logits[17] = -kInfinity;
    for (SamplingParams params : FilterSettings()) {
      params.num_top_logprobs = kVocabSize;
      params.logit_bias = {{.token = 5, .bias = 10.0}, {.token = 6, .bias = -100.0}};
      const SampledToken token = SampleAt(sampler, logits, params, 9);
      const auto reference = ReferenceDistribution(logits, params);
      ASSERT_EQ(token.final_top.size(), reference.size())
          << params.temperature << " " << params.top_k << " " << params.top_p << " "
          << params.min_p;
      for (const auto& [id, logprob] : token.final_top) {
        ASSERT_TRUE(reference.contains(id));
        ASSERT_NEAR(logprob, static_cast<double>(std::log(reference.at(id))), 1e-12);
        ASSERT_LE(logprob, 0.0);
      }
      ASSERT_TRUE(reference.contains(token.id));
      ASSERT_NEAR(token.final_logprob, static_cast<double>(std::log(reference.at(token.id))),
                  1e-12);
    }
  }
}

TEST(Sampler, DrawsWithTheRightFrequencies) {
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f, -1.0f, kNaN, 0.5f};
  Sampler sampler(6);
  SamplingParams params;
  params.temperature = 1.5;
  params.seed = 11;
  constexpr int kDraws = 20'000;
  std::map<TokenId, int> counts;
  for (int i = 0; i < kDraws; ++i) {
    params.seed = static_cast<uint64_t>(i);
    ++counts[SampleAt(sampler, logits, params, 3).id];
  }
  double chi_squared = 0.0;
  for (const auto& [id, probability] : ReferenceDistribution(logits, params)) {
    const double expected = static_cast<double>(probability) * kDraws;
    chi_squared += (counts[id] - expected) * (counts[id] - expected) / expected;
  }
  EXPECT_LT(chi_squared, 18.5);  // 99.9 % for 4 degrees of freedom
  EXPECT_EQ(counts[4], 0);
}

// cases.md S-01: tiny temperatures give the greedy ids, never infinities.
TEST(Sampler, TinyTemperaturesAreGreedy) {
  const std::vector<float> logits = RandomLogits(500, 3);
  Sampler sampler(500);
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  for (const double temperature : {0.0, 1e-38, 1e-12, 1e-4}) {
    SamplingParams params;
    params.temperature = temperature;
    params.num_top_logprobs = 2;
    const SampledToken token = SampleAt(sampler, logits, params, 5);
    EXPECT_EQ(token.id, best);
    EXPECT_EQ(token.final_logprob, 0.0);
    EXPECT_EQ(token.final_top.size(), 1u);
    EXPECT_EQ(token.raw_top.size(), 2u);
    EXPECT_EQ(token.raw_top[0].id, best);
  }
}

TEST(Sampler, HugeTemperatureIsUniformAndFinite) {
  std::vector<float> logits = RandomLogits(100, 3);
  logits[0] = -3e38f;
  logits[1] = 3e38f;
  Sampler sampler(100);
  SamplingParams params;
  params.temperature = 1e9;
  params.num_top_logprobs = 100;
  const SampledToken token = SampleAt(sampler, logits, params, 5);
  for (const auto& [id, logprob] : token.final_top) EXPECT_TRUE(std::isfinite(logprob));
  for (const auto& [id, logprob] : token.raw_top) EXPECT_TRUE(std::isfinite(logprob));
}

TEST(Sampler, TiesGoToTheLowerId) {
  const std::vector<float> logits = {0.0f, 2.0f, 1.0f, 2.0f, 2.0f};
  Sampler sampler(5);
  SamplingParams greedy;
  greedy.temperature = 0.0;
  EXPECT_EQ(SampleAt(sampler, logits, greedy, 1).id, 1);
  SamplingParams two;
  two.top_k = 2;
  two.num_top_logprobs = 5;
  const SampledToken token = SampleAt(sampler, logits, two, 1);
  ASSERT_EQ(token.final_top.size(), 2u);
  EXPECT_EQ(token.final_top[0].id, 1);
  EXPECT_EQ(token.final_top[1].id, 3);
  // Equal logits everywhere, more of them than the heap takes.
  Sampler large(5000);
  two.top_k = 3000;
  two.num_top_logprobs = 5000;
  const auto all = SampleAt(large, std::vector<float>(5000, 1.0f), two, 1).final_top;
  ASSERT_EQ(all.size(), 3000u);
  for (TokenId id = 0; id < 3000; ++id) ASSERT_EQ(all[id].id, id);
}

TEST(Sampler, BrokenLogitsAreAnErrorNotAToken) {
  Sampler sampler(3);
  const TokenHistory history;
  for (const std::vector<float>& logits :
       {std::vector<float>{kNaN, -kInfinity, kNaN}, std::vector<float>{0.0f, kInfinity, 0.0f}}) {
    for (const double temperature : {0.0, 1.0}) {
      SamplingParams params;
      params.temperature = temperature;
      const auto token = sampler.Sample(logits, params, history);
      ASSERT_FALSE(token.has_value());
      EXPECT_EQ(token.error().code, ErrorCode::kInternal);
      EXPECT_THAT(token.error().message, HasSubstr("damaged"));
    }
  }
}

TEST(Sampler, NaNIsNeverChosen) {
  const std::vector<float> logits = {kNaN, -5.0f, kNaN, -kInfinity};
  Sampler sampler(4);
  for (const double temperature : {0.0, 1.0, 1e9}) {
    SamplingParams params;
    params.temperature = temperature;
    params.num_top_logprobs = 4;
    const SampledToken token = SampleAt(sampler, logits, params, 2);
    EXPECT_EQ(token.id, 1);
    EXPECT_EQ(token.raw_logprob, 0.0);
    EXPECT_EQ(token.raw_top.size(), 1u);
  }
}

// cases.md S-04.
TEST(Sampler, BiasBansAndForces) {
  const std::vector<float> logits = RandomLogits(200, 8);
  Sampler sampler(200);
  SamplingParams params;
  params.temperature = 0.0;
  const TokenId best = SampleAt(sampler, logits, params, 1).id;
  params.logit_bias = {{.token = best, .bias = -100.0}};
  EXPECT_NE(SampleAt(sampler, logits, params, 1).id, best);
  const TokenId other = best == 50 ? 51 : 50;
  params.logit_bias = {{.token = other, .bias = 100.0}};
  EXPECT_EQ(SampleAt(sampler, logits, params, 1).id, other);
  params.temperature = 1.0;
  EXPECT_EQ(SampleAt(sampler, logits, params, 1).id, other);
}

TEST(Sampler, WhatIsBannedIsNeverChosenHoweverHot) {
  const std::vector<float> logits = RandomLogits(200, 8);
  Sampler sampler(200);
  SamplingParams params;
  for (TokenId even = 0; even < 200; even += 2) {
    params.logit_bias.push_back({.token = even, .bias = -100.0});
  }
  for (const double temperature : {0.0, 1.0, 100.0, 1e9}) {
    params.temperature = temperature;
    for (const int64_t top_k : {int64_t{0}, int64_t{150}}) {
      params.top_k = top_k;
      for (const double top_p : {1.0, 0.999}) {
        params.top_p = top_p;
        for (int64_t position = 1; position < 100; ++position) {
          EXPECT_EQ(SampleAt(sampler, logits, params, position).id % 2, 1) << temperature;
        }
      }
    }
  }
  // What the model cannot give, and the rest banned.
  std::vector<float> only = logits;
  for (size_t odd = 1; odd < only.size(); odd += 2) only[odd] = -kInfinity;
  const auto none = sampler.Sample(only, params, {.tokens = {}, .num_prompt = 0});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kInvalid);
}

// cases.md S-01: a row of a mixed batch is what it is alone. One sampler serves the rows in turn.
TEST(Sampler, NothingIsLeftOverFromOtherRows) {
  constexpr int64_t kVocabSize = 300;
  Sampler shared(kVocabSize);
  SamplingParams greedy;
  greedy.temperature = 0.0;
  greedy.logit_bias = {{.token = 3, .bias = -100.0}};
  SamplingParams random;
  random.temperature = 1.2;
  random.top_p = 0.9;
  random.repetition_penalty = 1.3;
  random.frequency_penalty = 0.2;
  random.seed = 5;
  const std::vector<TokenId> tokens = {1, 2, 3, 3, 4};
  const TokenHistory history = {.tokens = tokens, .num_prompt = 2};
  for (uint64_t row = 0; row < 20; ++row) {
    const std::vector<float> logits = RandomLogits(kVocabSize, row);
    for (const SamplingParams& params : {greedy, random}) {
      Sampler alone(kVocabSize);
      EXPECT_EQ(shared.Sample(logits, params, history)->id,
                alone.Sample(logits, params, history)->id);
    }
  }
}

TEST(Sampler, SeedAndPositionDecide) {
  const std::vector<float> logits(1000, 0.0f);
  Sampler sampler(1000);
  SamplingParams params;
  params.seed = 1;
  const TokenId first = SampleAt(sampler, logits, params, 10).id;
  EXPECT_EQ(SampleAt(sampler, logits, params, 10).id, first);
  EXPECT_NE(SampleAt(sampler, logits, params, 11).id, first);
  params.seed = 2;
  EXPECT_NE(SampleAt(sampler, logits, params, 10).id, first);
}

TEST(Sampler, FiltersThatRemoveNothingChangeNothing) {
  const std::vector<float> logits = RandomLogits(400, 4);
  Sampler sampler(400);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SamplingParams plain;
    plain.seed = seed;
    SamplingParams wide = plain;
    wide.top_k = 1'000'000'000;
    wide.top_p = 1.0;
    SamplingParams nearly = plain;
    nearly.top_p = 1.0 - 1e-16;
    EXPECT_EQ(SampleAt(sampler, logits, plain, 3).id, SampleAt(sampler, logits, wide, 3).id);
    EXPECT_EQ(SampleAt(sampler, logits, plain, 3).id, SampleAt(sampler, logits, nearly, 3).id);
  }
}

// cases.md S-07: one meaning, at most 0, the choice always there, sum at most one.
TEST(Sampler, RawLogprobsAreThoseOfTheModel) {
  constexpr int64_t kVocabSize = 256;
  const std::vector<float> logits = RandomLogits(kVocabSize, 6);
  long double total = 0.0L;
  for (const float logit : logits) total += std::exp(static_cast<long double>(logit));
  Sampler sampler(kVocabSize);
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  for (const double temperature : {0.0, 0.7, 2.0}) {
    for (const int64_t num_top : {int64_t{0}, int64_t{1}, int64_t{5}, kVocabSize}) {
      SamplingParams params;
      params.temperature = temperature;
      params.top_k = 3;
      params.num_top_logprobs = num_top;
      params.logit_bias = {{.token = static_cast<TokenId>(best), .bias = -100.0}};
      const SampledToken token = SampleAt(sampler, logits, params, 6);
      EXPECT_TRUE(token.has_logprobs);
      const long double expected = logits[token.id] - std::log(total);
      EXPECT_NEAR(token.raw_logprob, static_cast<double>(expected), 1e-12);
      ASSERT_EQ(std::ssize(token.raw_top), num_top);
      double sum = 0.0;
      for (int64_t i = 0; i < num_top; ++i) {
        EXPECT_LE(token.raw_top[i].logprob, 0.0);
        EXPECT_NEAR(token.raw_top[i].logprob,
                    static_cast<double>(logits[token.raw_top[i].id] - std::log(total)), 1e-12);
        if (i > 0) {
          EXPECT_GE(token.raw_top[i - 1].logprob, token.raw_top[i].logprob);
        }
        sum += std::exp(token.raw_top[i].logprob);
      }
      EXPECT_LE(sum, 1.0 + 1e-12);
      if (num_top > 0) {
        EXPECT_EQ(token.raw_top[0].id, best) << "banned, but the model's first";
      }
      EXPECT_LE(std::ssize(token.final_top), std::min<int64_t>(num_top, 3));
    }
  }
}

TEST(Sampler, NoLogprobsUnlessAsked) {
  Sampler sampler(10);
  const SampledToken token = SampleAt(sampler, RandomLogits(10, 1), SamplingParams{}, 1);
  EXPECT_FALSE(token.has_logprobs);
  EXPECT_TRUE(token.raw_top.empty());
}

TEST(Sampler, AllocatesNothingAfterTheFirstCalls) {
  constexpr int64_t kVocabSize = 5000;
  Sampler sampler(kVocabSize);
  const std::vector<float> logits = RandomLogits(kVocabSize, 2);
  std::vector<TokenId> tokens;
  for (TokenId id = 0; id < 100; ++id) tokens.push_back(id * 7);
  const TokenHistory history = {.tokens = tokens, .num_prompt = 50};
  std::vector<SamplingParams> settings = FilterSettings();
  for (SamplingParams& params : settings) {
    params.repetition_penalty = 1.1;
    params.presence_penalty = 0.5;
    params.num_top_logprobs = 0;
  }
  const auto run = [&] {
    for (const SamplingParams& params : settings) {
      ASSERT_TRUE(sampler.Sample(logits, params, history).has_value());
    }
  };
  run();
  const int64_t before = AllocationCount();
  run();
  EXPECT_EQ(AllocationCount(), before);
}

}  // namespace
}  // namespace baton
