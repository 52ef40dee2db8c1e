#include "step/step_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "step/request.h"
#include "tensor/kv_record.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

static_assert(kStepBlockTokens == kBlockTokens);

constexpr StepLimits kLimits = {
    .max_sequences = 4, .max_rows = 512, .max_context = 1024, .vocab_size = 100, .num_blocks = 16};

// A chunk of 70 tokens that starts in the middle of block 3, and a decoding sequence that shares
// its first block.
StepPlan MixedPlan() {
  StepPlan plan;
  plan.sequences.push_back({.slot = 2,
                            .first_position = 100,
                            .tokens = std::vector<TokenId>(70, 9),
                            .blocks = {{7}, {3}, {4}},
                            .phase = Phase::kPrefill,
                            .logits = LogitRows::kList,
                            .logit_rows = {0, 5, 69}});
  plan.sequences.push_back({.slot = 0,
                            .first_position = 64,
                            .tokens = {42},
                            .blocks = {{7}, {5}},
                            .phase = Phase::kDecode,
                            .logits = LogitRows::kLast,
                            .logit_rows = {}});
  return plan;
}

TEST(StepPlan, CountsRows) {
  const StepPlan plan = MixedPlan();
  EXPECT_EQ(plan.num_rows(), 71);
  EXPECT_EQ(plan.num_logit_rows(), 4);
  EXPECT_EQ(plan.sequences[0].end_position(), 170);
  EXPECT_EQ(plan.sequences[0].LogitRow(2), 69);
  EXPECT_EQ(plan.sequences[1].LogitRow(0), 0);
  SequenceStep sequence = plan.sequences[0];
  sequence.logits = LogitRows::kLast;
  EXPECT_EQ(sequence.LogitRow(0), 69);
  sequence.logits = LogitRows::kAll;
  EXPECT_EQ(sequence.num_logit_rows(), 70);
  EXPECT_EQ(sequence.LogitRow(31), 31);
  sequence.logits = LogitRows::kNone;
  EXPECT_EQ(sequence.num_logit_rows(), 0);
}

TEST(StepPlan, ComparesByValue) {
  EXPECT_EQ(MixedPlan(), MixedPlan());
  StepPlan other = MixedPlan();
  other.sequences[1].blocks[1] = {6};
  EXPECT_FALSE(MixedPlan() == other);
}

TEST(StepPlan, PrintsWhatItHolds) {
  const std::string text = ToString(MixedPlan());
  EXPECT_THAT(text, HasSubstr("2 sequences, 71 rows, 4 with logits"));
  EXPECT_THAT(text, HasSubstr("slot 2 prefill positions 100..169"));
  EXPECT_THAT(text, HasSubstr("… 70 in all"));
  EXPECT_THAT(text, HasSubstr("logits list [0 5 69]"));
  EXPECT_THAT(text,
              HasSubstr("slot 0 decode positions 64..64 tokens [42] blocks [7 5] logits last"));
}

TEST(StepPlan, AcceptsMixedEmptyAndReservedAhead) {
  EXPECT_TRUE(Validate(MixedPlan(), kLimits).has_value());
  EXPECT_TRUE(Validate(StepPlan{}, kLimits).has_value());
  StepPlan ahead = MixedPlan();
  ahead.sequences[1].blocks.push_back({6});
  EXPECT_TRUE(Validate(ahead, kLimits).has_value());
}

TEST(StepPlan, RefusesWhatCannotBe) {
  struct Case {
    const char* message;
    std::function<void(StepPlan&)> spoil;
  };
  const std::vector<Case> cases = {
      {"slots are 0..3", [](StepPlan& p) { p.sequences[0].slot = 4; }},
      {"slots are 0..3", [](StepPlan& p) { p.sequences[0].slot = -1; }},
      {"slot 2: appears twice", [](StepPlan& p) { p.sequences[1].slot = 2; }},
      {"no tokens", [](StepPlan& p) { p.sequences[0].tokens.clear(); }},
      {"2 tokens to decode", [](StepPlan& p) { p.sequences[1].tokens.push_back(1); }},
      {"leave the context of 1024", [](StepPlan& p) { p.sequences[0].first_position = 955; }},
      {"leave the context", [](StepPlan& p) { p.sequences[0].first_position = -1; }},
      {"leave the context", [](StepPlan& p) { p.sequences[0].first_position = INT64_MAX; }},
      {"token id 100 is not in 0..99", [](StepPlan& p) { p.sequences[1].tokens[0] = 100; }},
      {"token id -1", [](StepPlan& p) { p.sequences[1].tokens[0] = -1; }},
      {"2 blocks for 170 tokens, needs 3 to 16",
       [](StepPlan& p) { p.sequences[0].blocks.pop_back(); }},
      {"17 blocks", [](StepPlan& p) { p.sequences[0].blocks.resize(17, BlockId{1}); }},
      {"block 16 is not in 0..15", [](StepPlan& p) { p.sequences[0].blocks[0] = {16}; }},
      {"block -1", [](StepPlan& p) { p.sequences[0].blocks[0] = BlockId{}; }},
      {"writes to block 3, which slot 0 holds",
       [](StepPlan& p) { p.sequences[1].blocks[0] = {3}; }},
      {"writes to block 4, which slot 2 holds",
       [](StepPlan& p) { p.sequences[0].blocks[0] = {4}; }},
      {"an empty list", [](StepPlan& p) { p.sequences[0].logit_rows.clear(); }},
      {"logit row 70", [](StepPlan& p) { p.sequences[0].logit_rows[2] = 70; }},
      {"logit row 5 after 5",
       [](StepPlan& p) {
         p.sequences[0].logit_rows = {5, 5};
       }},
      {"logit row -1", [](StepPlan& p) { p.sequences[0].logit_rows = {-1}; }},
      {"with logits = last", [](StepPlan& p) { p.sequences[1].logit_rows = {0}; }},
      {"513 rows, at most 512", [](StepPlan& p) { p.sequences[0].tokens.resize(512, 1); }},
      {"5 sequences, at most 4", [](StepPlan& p) { p.sequences.resize(5); }},
  };
  for (const Case& c : cases) {
    StepPlan plan = MixedPlan();
    c.spoil(plan);
    const Result<> result = Validate(plan, kLimits);
    ASSERT_FALSE(result.has_value()) << c.message;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(result.error().message, HasSubstr(c.message));
  }
}

TEST(Request, ComputedCatchesUpWithKnown) {
  Request request{.id = 1, .known = {5, 6, 7, 8, 9}, .num_prompt = 5, .computed = 0};
  EXPECT_EQ(request.num_pending(), 5);
  request.AdvanceComputed(3);
  request.AdvanceComputed(2);
  EXPECT_EQ(request.num_pending(), 0);
  request.known.push_back(1);
  EXPECT_EQ(request.num_pending(), 1);
  EXPECT_EQ(request.num_generated(), 1);
}

TEST(RequestDeathTest, CannotComputeTheUnknown) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Request request{.id = 1, .known = {5}, .num_prompt = 1, .computed = 0};
  EXPECT_DEATH(request.AdvanceComputed(2), "CHECK failed");
}

}  // namespace
}  // namespace baton
