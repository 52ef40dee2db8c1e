#include "sample/penalties.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kVocabSize = 10;

// Logits with id5 = +2, id7 = −1 and zeros, as in cases.md S-03, after the penalties.
std::vector<double> Penalised(const SamplingParams& params, const std::vector<TokenId>& tokens,
                              int64_t num_prompt) {
  std::vector<double> logits(kVocabSize, 0.0);
  logits[5] = 2.0;
  logits[7] = -1.0;
  TokenCounts counts(kVocabSize);
  const auto result =
      ApplyPenalties(params, {.tokens = tokens, .num_prompt = num_prompt}, counts, logits);
  EXPECT_TRUE(result.has_value());
  return logits;
}

TEST(Penalties, RepetitionOncePerDistinctTokenByItsSign) {
  SamplingParams params;
  params.repetition_penalty = 1.5;
  const auto logits = Penalised(params, {5, 5, 5, 7}, 0);
  EXPECT_NEAR(logits[5], 1.3333, 1e-4);
  EXPECT_DOUBLE_EQ(logits[7], -1.5);
  for (const int id : {0, 1, 2, 3, 4, 6, 8, 9}) EXPECT_EQ(logits[id], 0.0);
}

TEST(Penalties, RepetitionCountsThePrompt) {
  SamplingParams params;
  params.repetition_penalty = 2.0;
  EXPECT_DOUBLE_EQ(Penalised(params, {5, 7}, 2)[5], 1.0);
}

TEST(Penalties, WindowTakesTheLastTokens) {
  SamplingParams params;
  params.repetition_penalty = 1.5;
  params.penalty_window = 2;
  std::vector<double> logits(kVocabSize, 1.0);
  TokenCounts counts(kVocabSize);
  const std::vector<TokenId> tokens = {9, 5, 7};
  ASSERT_TRUE(ApplyPenalties(params, {.tokens = tokens, .num_prompt = 0}, counts, logits));
  for (int id = 0; id < kVocabSize; ++id) {
    EXPECT_DOUBLE_EQ(logits[id], id == 5 || id == 7 ? 1.0 / 1.5 : 1.0) << id;
  }
}

TEST(Penalties, WindowMayExceedTheHistory) {
  SamplingParams params;
  params.repetition_penalty = 1.5;
  params.penalty_window = 1000;
  EXPECT_NEAR(Penalised(params, {5, 7}, 0)[5], 1.3333, 1e-4);
  EXPECT_EQ(Penalised(params, {}, 0)[5], 2.0);
}

TEST(Penalties, PresenceOnceAndFrequencyByCount) {
  SamplingParams params;
  params.presence_penalty = 0.5;
  params.frequency_penalty = 0.25;
  EXPECT_DOUBLE_EQ(Penalised(params, {5, 5}, 0)[5], 2.0 - 1.0);
  EXPECT_DOUBLE_EQ(Penalised(params, {5, 5}, 0)[7], -1.0);
}

TEST(Penalties, PresenceAndFrequencyLeaveThePromptOut) {
  SamplingParams params;
  params.presence_penalty = 0.5;
  params.frequency_penalty = 0.25;
  EXPECT_DOUBLE_EQ(Penalised(params, {7, 7, 5}, 2)[7], -1.0);
  EXPECT_DOUBLE_EQ(Penalised(params, {7, 7, 5}, 2)[5], 2.0 - 0.75);
  params.penalty_window = 1;
  EXPECT_DOUBLE_EQ(Penalised(params, {7, 5, 5}, 1)[5], 2.0 - 0.75);
}

TEST(Penalties, NegativePenaltiesLift) {
  SamplingParams params;
  params.presence_penalty = -2.0;
  EXPECT_DOUBLE_EQ(Penalised(params, {7}, 0)[7], 1.0);
}

TEST(Penalties, BiasIsAddedAndABanIsOne) {
  SamplingParams params;
  params.logit_bias = {
      {.token = 5, .bias = -100.0}, {.token = 2, .bias = 100.0}, {.token = 4, .bias = -99.0}};
  std::vector<double> logits(kVocabSize, 1.0);
  ApplyBias(params, logits);
  EXPECT_EQ(logits[5], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(logits[4], -98.0);
  EXPECT_EQ(logits[2], 101.0);
  EXPECT_EQ(logits[3], 1.0);
}

// cases.md S-04: ids from outside the vocabulary, here as a prompt's.
TEST(Penalties, UnknownTokensOfTheHistoryAreRefusedAndForgotten) {
  SamplingParams params;
  params.repetition_penalty = 2.0;
  TokenCounts counts(kVocabSize);
  for (const TokenId bad : {-1, 10, INT32_MAX, INT32_MIN}) {
    std::vector<double> logits(kVocabSize, 1.0);
    const std::vector<TokenId> tokens = {3, bad};
    const auto result = ApplyPenalties(params, {.tokens = tokens, .num_prompt = 2}, counts, logits);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(result.error().message, HasSubstr("token id " + std::to_string(bad)));
    EXPECT_EQ(counts.count(3), 0);
    EXPECT_EQ(logits, std::vector<double>(kVocabSize, 1.0));
  }
}

}  // namespace
}  // namespace baton
