#include "sample/stop_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using ::testing::HasSubstr;

StopRules Rules() {
  return {.end_tokens = {2, 7}, .ignore_end_tokens = false, .max_tokens = {}, .max_context = 64};
}

TEST(StopRules, AllEndTokensEnd) {
  StopRules rules = Rules();
  EXPECT_TRUE(EndsGeneration(rules, 2));
  EXPECT_TRUE(EndsGeneration(rules, 7));
  EXPECT_FALSE(EndsGeneration(rules, 3));
  rules.ignore_end_tokens = true;
  EXPECT_FALSE(EndsGeneration(rules, 2));
}

// cases.md S-06: exactly as many tokens as asked for, 0 gives none.
TEST(StopRules, MaxTokensIsExact) {
  for (const int64_t max_tokens : {0, 1, 2, 3}) {
    StopRules rules = Rules();
    rules.max_tokens = max_tokens;
    int64_t generated = 0;
    while (!StopBeforeNext(rules, {.num_generated = generated, .num_known = 10 + generated})) {
      ++generated;
    }
    EXPECT_EQ(generated, max_tokens);
    EXPECT_EQ(StopBeforeNext(rules, {.num_generated = generated, .num_known = 10 + generated}),
              StopReason::kLength);
  }
}

// cases.md P-06: context 64, prompts around it.
TEST(StopRules, ContextIsTheLastLimit) {
  const StopRules rules = Rules();
  EXPECT_TRUE(CheckPromptFits(rules, 62).has_value());
  EXPECT_TRUE(CheckPromptFits(rules, 63).has_value());
  for (const int64_t num_prompt : {64, 65, 500}) {
    const auto result = CheckPromptFits(rules, num_prompt);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(result.error().message, HasSubstr(std::to_string(num_prompt) + " tokens"));
    EXPECT_THAT(result.error().message, HasSubstr("context of 64"));
  }
  EXPECT_EQ(StopBeforeNext(rules, {.num_generated = 0, .num_known = 63}), std::nullopt);
  EXPECT_EQ(StopBeforeNext(rules, {.num_generated = 1, .num_known = 64}), StopReason::kContextFull);
}

TEST(StopRules, RefusesImpossibleLimits) {
  StopRules rules = Rules();
  EXPECT_TRUE(Validate(rules, 8).has_value());
  rules.max_tokens = INT64_MAX;
  EXPECT_TRUE(Validate(rules, 8).has_value());
  rules.max_tokens = -1;
  EXPECT_THAT(Validate(rules, 8).error().message,
              HasSubstr("max_tokens must be at least 0, got -1"));
  rules = Rules();
  EXPECT_THAT(Validate(rules, 7).error().message, HasSubstr("end token id 7 is not in 0..6"));
  rules.max_context = 0;
  EXPECT_THAT(Validate(rules, 8).error().message, HasSubstr("context"));
}

TEST(StopReason, HasNames) {
  EXPECT_EQ(StopReasonName(StopReason::kContextFull), "context-full");
}

}  // namespace
}  // namespace baton
