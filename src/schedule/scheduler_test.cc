#include "schedule/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "schedule/test_checked_scheduler.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ScheduleLimits kLimits = {.max_running = 4,
                                    .max_context = 2000,
                                    .max_prefill_rows = 128,
                                    .max_queue_requests = 100,
                                    .max_queue_tokens = 100000,
                                    .long_prompt_tokens = 500,
                                    .max_long_prefills = 1,
                                    .max_passes = 2,
                                    .min_progress_tokens = 64};

// A millisecond per prompt token and 10 ms per decode row: so beside n streams a step of five
// decode steps' time has (5 − 1) · 10 n prompt tokens.
StepTimeModel Model() {
  StepTimeModel model;
  for (int i = 0; i < 300; ++i) {
    StepFeatures features;
    features.AddPrefill(1 + i * 37 % 500, i * 53 % 700);
    for (int row = 0; row < i % 5; ++row) features.AddDecode(1 + i * 11 % 800);
    model.Observe(features, 1e-3 * features.prefill_tokens + 1e-2 * features.decode_rows);
  }
  return model;
}

class SchedulerTest : public testing::Test {
 protected:
  explicit SchedulerTest(const ScheduleLimits& limits = kLimits, int32_t num_blocks = 100)
      : checked_(num_blocks, limits, Model()) {}

  struct Wanted {
    int64_t prompt = 10;
    int64_t answer = 10;
    TokenId kind = -1;  // prompts of one kind share what they can; −1: with nobody
    int32_t priority = 0;
    uint64_t session = 0;
  };
  SequenceSpec Spec(const Wanted& wanted) {
    SequenceSpec spec;
    spec.id = ++last_id_;
    const TokenId kind = wanted.kind >= 0 ? wanted.kind : static_cast<TokenId>(100 + last_id_);
    spec.prompt.assign(static_cast<size_t>(wanted.prompt), kind);
    spec.max_known = wanted.prompt + wanted.answer;
    spec.priority = wanted.priority;
    spec.session = wanted.session;
    return spec;
  }
  uint64_t Submit(const Wanted& wanted) {
    const Result<> taken = checked_.Submit(Spec(wanted));
    EXPECT_TRUE(taken.has_value()) << (taken ? "" : taken.error().message);
    return last_id_;
  }
  void Steps(int count) {
    for (int i = 0; i < count; ++i) ASSERT_NO_FATAL_FAILURE(checked_.Step());
  }
  bool Runs(uint64_t id) {
    const Sequence* sequence = checked_.scheduler().Find(id);
    return sequence != nullptr && sequence->slot >= 0;
  }
  int64_t Computed(uint64_t id) { return checked_.scheduler().Find(id)->ledger.computed; }

  CheckedScheduler checked_;
  uint64_t last_id_ = 0;
};

TEST_F(SchedulerTest, ALoneRequestRunsToItsEnd) {
  const uint64_t id = Submit({.prompt = 300, .answer = 50});
  EXPECT_FALSE(Runs(id));
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(1000));
  // Three chunks of at most 128, the last with the first token; then 49 more.
  EXPECT_EQ(checked_.num_steps(), 3 + 49);
  EXPECT_EQ(checked_.answers().at(id).size(), 350u);
  EXPECT_EQ(checked_.scheduler().counts().prompt_tokens, 300u);
  EXPECT_EQ(checked_.scheduler().counts().other_tokens, 49u);
  ASSERT_NO_FATAL_FAILURE(checked_.CheckIdle());
}

TEST_F(SchedulerTest, S1EveryStreamIsInEveryStepAndTheStepKeepsToItsTime) {
  const uint64_t stream = Submit({.prompt = 10, .answer = 1000});
  Steps(2);
  const uint64_t other = Submit({.prompt = 10, .answer = 1000});
  Steps(2);
  const uint64_t reader = Submit({.prompt = 1900, .answer = 5});
  int steps = 0;
  while (Computed(reader) < 1900 && ++steps < 1000) {
    const int64_t before = Computed(reader);
    const int64_t of_streams = Computed(stream) + Computed(other);
    ASSERT_NO_FATAL_FAILURE(checked_.Step());
    EXPECT_EQ(Computed(stream) + Computed(other), of_streams + 2);
    // Five steps of two rows are 100 ms, of which 20 are the rows themselves.
    EXPECT_LE(Computed(reader) - before, 80);
    EXPECT_GT(Computed(reader), before);
  }
  EXPECT_LT(steps, 60);
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(5000));
}

TEST_F(SchedulerTest, S2AllPrefillsAdvanceInEveryFourSteps) {
  for (int i = 0; i < 4; ++i) Submit({.prompt = 450, .answer = 5});
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(1000));
  EXPECT_LT(checked_.longest_wait(), kLimits.max_prefill_wait);
}

TEST_F(SchedulerTest, S4OneLongPromptAtATimeAndShortOnesPassIt) {
  const uint64_t first = Submit({.prompt = 1500, .answer = 5});
  const uint64_t second = Submit({.prompt = 1500, .answer = 5});
  const uint64_t brief = Submit({.prompt = 40, .answer = 5});
  Steps(1);
  EXPECT_TRUE(Runs(first));
  EXPECT_FALSE(Runs(second)) << "max_long_prefills = 1";
  EXPECT_TRUE(Runs(brief));
  while (checked_.is_live(brief)) ASSERT_NO_FATAL_FAILURE(checked_.Step());
  EXPECT_LT(Computed(first), 1500) << "the short one ends before the long one is read";
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(1000));
}

class SmallSchedulerTest : public SchedulerTest {
 protected:
  SmallSchedulerTest() : SchedulerTest(kLimits, 12) {}
};

// The large one lacks room while small ones come for ever: only max_passes of them pass it.
TEST_F(SmallSchedulerTest, S4TheOldestIsNotPassedForEver) {
  Submit({.prompt = 300, .answer = 60});
  Steps(1);
  const uint64_t large = Submit({.prompt = 450, .answer = 10});
  int passed = 0;
  int steps = 0;
  for (; !Runs(large) && checked_.is_live(large) && steps < 300; ++steps) {
    const uint64_t small = Submit({.prompt = 20, .answer = 20});
    ASSERT_NO_FATAL_FAILURE(checked_.Step());
    passed += Runs(small) ? 1 : 0;
  }
  EXPECT_LT(steps, 100);
  EXPECT_EQ(passed, kLimits.max_passes);
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(10000));
}

TEST_F(SmallSchedulerTest, S4APriorityPassesButNotForEver) {
  for (int i = 0; i < 4; ++i) Submit({.prompt = 10, .answer = 40});
  Steps(1);
  const uint64_t low = Submit({.prompt = 10, .answer = 10, .priority = -1});
  int steps = 0;
  for (; !Runs(low) && checked_.is_live(low) && steps < 1000; ++steps) {
    if (checked_.scheduler().num_waiting() < 5) Submit({.prompt = 10, .answer = 9, .priority = 1});
    ASSERT_NO_FATAL_FAILURE(checked_.Step());
  }
  EXPECT_LT(steps, 100);
  EXPECT_GT(steps, 30);
}

TEST_F(SchedulerTest, ThePriorityDecidesTheOrder) {
  for (int i = 0; i < 4; ++i) Submit({.prompt = 10, .answer = 20});
  Steps(1);
  const uint64_t low = Submit({.prompt = 10, .answer = 5, .priority = 0});
  const uint64_t high = Submit({.prompt = 10, .answer = 5, .priority = 3});
  while (!Runs(low) && !Runs(high)) ASSERT_NO_FATAL_FAILURE(checked_.Step());
  // All four places become free at once; the higher priority has the first of them.
  EXPECT_GT(checked_.scheduler().Find(low)->slot, -1);
  EXPECT_EQ(checked_.scheduler().Find(low)->passes, 1);
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(1000));
}

// Two answers that do not fit together: the younger gives way, comes back, and both are what they
// would be alone.
TEST_F(SmallSchedulerTest, S5TheYoungerGivesWayAndTheOldestNever) {
  const uint64_t old = Submit({.prompt = 60, .answer = 500, .kind = 1});
  const uint64_t young = Submit({.prompt = 60, .answer = 500, .kind = 2});
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(10000));  // looks at S-5 in every step
  EXPECT_GT(checked_.scheduler().counts().preemptions, 0u);
  CheckedScheduler alone(12, kLimits, Model());
  SequenceSpec spec = Spec({.prompt = 60, .answer = 500, .kind = 2});
  spec.id = young;
  ASSERT_TRUE(alone.Submit(std::move(spec)).has_value());
  ASSERT_NO_FATAL_FAILURE(alone.Drain(10000));
  EXPECT_EQ(alone.answers().at(young), checked_.answers().at(young));
  EXPECT_EQ(checked_.answers().at(old).size(), 560u);
  ASSERT_NO_FATAL_FAILURE(checked_.CheckIdle());
}

TEST_F(SmallSchedulerTest, S5WhoWasPreemptedIsNotPassed) {
  Submit({.prompt = 60, .answer = 500});
  const uint64_t young = Submit({.prompt = 60, .answer = 500});
  while (checked_.scheduler().counts().preemptions == 0) {
    ASSERT_NO_FATAL_FAILURE(checked_.Step());
  }
  ASSERT_FALSE(Runs(young));
  std::vector<uint64_t> small;
  int steps = 0;
  for (; !Runs(young); ++steps) {
    if (small.size() < 5) small.push_back(Submit({.prompt = 20, .answer = 20}));
    ASSERT_NO_FATAL_FAILURE(checked_.Step());
    for (const uint64_t id : small) ASSERT_TRUE(Runs(young) || !Runs(id)) << "it would fit";
  }
  EXPECT_GT(steps, 10);
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(10000));
}

// The newcomer's prompt would take all that the oldest needs while it is read.
TEST_F(SmallSchedulerTest, S5ANewcomerLeavesTheOldestRoomUntilItMayBePreempted) {
  const uint64_t old = Submit({.prompt = 190, .answer = 560});
  Steps(3);
  const uint64_t large = Submit({.prompt = 420, .answer = 300});
  for (int i = 0; i < 600 && checked_.is_live(old); ++i) {
    const int64_t before = Computed(old);
    ASSERT_NO_FATAL_FAILURE(checked_.Step());
    if (checked_.is_live(old)) {
      ASSERT_GT(Computed(old), before);
    }
  }
  EXPECT_FALSE(checked_.is_live(old));
  EXPECT_TRUE(checked_.is_live(large));
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(10000));
}

TEST_F(SmallSchedulerTest, S6AdmissionPromisesThePromptAndOneBlock) {
  const uint64_t first = Submit({.prompt = 640, .answer = 100});  // 10 blocks and one
  const uint64_t second = Submit({.prompt = 64, .answer = 100});  // would need two
  Steps(1);
  EXPECT_TRUE(Runs(first));
  EXPECT_GE(checked_.scheduler().Find(first)->promised_blocks, 11);
  EXPECT_FALSE(Runs(second));
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(1000));
}

TEST_F(SmallSchedulerTest, S6WhatCanNeverFitIsRefusedWithTheNumbers) {
  const Result<> refused = checked_.Submit(Spec({.prompt = 700, .answer = 69}));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_THAT(refused.error().message, HasSubstr("a prompt of 700 tokens and 69 more"));
  EXPECT_THAT(refused.error().message, HasSubstr("a cache of 768 tokens"));
  Submit({.prompt = 700, .answer = 68});
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(1000));
}

TEST(SchedulerQueue, IsLimitedInRequestsAndTokens) {
  ScheduleLimits limits = kLimits;
  limits.max_queue_requests = 2;
  limits.max_queue_tokens = 100;
  CheckedScheduler checked(20, limits, StepTimeModel());
  const auto submit = [&](uint64_t id, size_t prompt) {
    SequenceSpec spec;
    spec.id = id;
    spec.prompt.assign(prompt, 1);
    spec.max_known = static_cast<int64_t>(prompt) + 5;
    return checked.Submit(std::move(spec));
  };
  ASSERT_TRUE(submit(1, 60).has_value());
  const Result<> tokens = submit(2, 41);
  ASSERT_FALSE(tokens.has_value());
  EXPECT_EQ(tokens.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(tokens.error().message,
              HasSubstr("60 tokens waiting, and 41 more exceed the limit of 100"));
  ASSERT_TRUE(submit(3, 40).has_value());
  const Result<> requests = submit(4, 1);
  ASSERT_FALSE(requests.has_value());
  EXPECT_EQ(requests.error().code, ErrorCode::kExhausted);
  EXPECT_THAT(requests.error().message, HasSubstr("2 requests waiting"));
  ASSERT_NO_FATAL_FAILURE(checked.Drain(100));
}

TEST_F(SchedulerTest, M3BlocksComeBackWhereverARequestEnds) {
  for (int steps = 0; steps < 12; ++steps) {
    const uint64_t first = Submit({.prompt = 300, .answer = 20});
    const uint64_t second = Submit({.prompt = 30, .answer = 20});
    Steps(steps);
    checked_.End(first);
    checked_.End(second);
    checked_.End(second);  // no matter
    ASSERT_NO_FATAL_FAILURE(checked_.CheckIdle());
  }
}

TEST_F(SchedulerTest, M5NothingOfAnAbandonedStepIsCached) {
  const uint64_t id = Submit({.prompt = 128, .answer = 5});
  ASSERT_NO_FATAL_FAILURE(checked_.Plan());
  ASSERT_NO_FATAL_FAILURE(checked_.Abandon());
  EXPECT_EQ(Computed(id), 0);
  checked_.End(id);
  EXPECT_EQ(checked_.pool().num_cached(), 0);
  ASSERT_NO_FATAL_FAILURE(checked_.CheckIdle());
}

TEST_F(SchedulerTest, M5OnlyCompleteBlocksAreCached) {
  Submit({.prompt = 100, .answer = 10});
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(100));
  EXPECT_EQ(checked_.pool().num_cached(), 1);
  EXPECT_EQ(checked_.pool().num_free(), 99);
}

TEST_F(SchedulerTest, APrefixIsComputedOnce) {
  Submit({.prompt = 300, .answer = 10, .kind = 3});
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(100));
  Submit({.prompt = 300, .answer = 10, .kind = 3});
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(100));
  EXPECT_EQ(checked_.scheduler().counts().prefix_hit_tokens, 256u);
  EXPECT_EQ(checked_.scheduler().counts().prompt_tokens, 300u + 44u);
  EXPECT_EQ(checked_.answers().at(1), checked_.answers().at(2));
}

TEST_F(SchedulerTest, WhoSharesWithARunningPrefillWaitsForIt) {
  for (int i = 0; i < 3; ++i) Submit({.prompt = 300, .answer = 10, .kind = 3});
  Steps(1);
  EXPECT_TRUE(Runs(1));
  EXPECT_FALSE(Runs(2));
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(100));
  EXPECT_EQ(checked_.scheduler().counts().prompt_tokens, 300u + 2 * 44u);
}

TEST_F(SchedulerTest, ASaltSharesNothing) {
  for (const uint64_t salt : {1, 2}) {
    SequenceSpec spec = Spec({.prompt = 300, .answer = 10, .kind = 3});
    spec.salt = {.low = salt, .high = 0};
    ASSERT_TRUE(checked_.Submit(std::move(spec)).has_value());
    ASSERT_NO_FATAL_FAILURE(checked_.Drain(100));
  }
  EXPECT_EQ(checked_.scheduler().counts().prefix_hit_tokens, 0u);
}

TEST_F(SchedulerTest, ASessionGoesOnToTheToken) {
  Submit({.prompt = 100, .answer = 10, .kind = 3, .session = 5});
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(100));
  EXPECT_EQ(checked_.scheduler().sessions().size(), 1u);
  SequenceSpec next = Spec({.session = 5});
  next.prompt = checked_.answers().at(1);
  next.prompt.push_back(9);
  next.max_known = 140;
  ASSERT_TRUE(checked_.Submit(std::move(next)).has_value());
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(100));
  // The answer's last token was never computed.
  EXPECT_EQ(checked_.scheduler().counts().prefix_hit_tokens, 109u);
}

TEST_F(SchedulerTest, ASessionOfAnotherSaltIsNotGoneOnFrom) {
  Submit({.prompt = 100, .answer = 10, .kind = 3, .session = 5});
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(100));
  SequenceSpec next = Spec({.prompt = 100, .answer = 10, .kind = 3, .session = 5});
  next.salt = {.low = 1, .high = 1};
  ASSERT_TRUE(checked_.Submit(std::move(next)).has_value());
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(100));  // the executor knows whose blocks it reads
  EXPECT_EQ(checked_.scheduler().counts().prefix_hit_tokens, 0u);
}

// Kept sessions share the document's blocks with whom is admitted: these blocks must not count
// twice, as held by others and as room to be had once the sessions are let go.
TEST_F(SmallSchedulerTest, SessionsThatAreLetGoDoNotCountTwice) {
  Submit({.prompt = 630, .answer = 5, .kind = 3, .session = 5});  // keeps 10 blocks
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(100));
  Submit({.prompt = 60, .answer = 30});  // is promised the other two
  Steps(1);
  const uint64_t same = Submit({.prompt = 640, .answer = 60, .kind = 3});  // 11 blocks
  Steps(2);
  EXPECT_FALSE(Runs(same));
  ASSERT_NO_FATAL_FAILURE(checked_.Drain(1000));
}

TEST_F(SchedulerTest, DeadlinesThatPassedTheOldestFirst) {
  Scheduler& scheduler = checked_.scheduler();
  for (const double deadline : {5.0, 3.0, std::numeric_limits<double>::infinity(), 4.0, 3.5}) {
    SequenceSpec spec = Spec({.prompt = 10, .answer = 100});
    spec.deadline = deadline;
    ASSERT_TRUE(checked_.Submit(std::move(spec)).has_value());
  }
  Steps(1);
  EXPECT_THAT(scheduler.Expired(2.9), ElementsAre());
  EXPECT_THAT(scheduler.Expired(4.0), ElementsAre(2, 4, 5));
  for (const uint64_t id : {2, 4, 5}) checked_.End(id);
  EXPECT_THAT(scheduler.Expired(4.9), ElementsAre());
  EXPECT_THAT(scheduler.Expired(1e9), ElementsAre(1));
}

// Twenty prompts come at once beside streams: so many are read at a time that those whose turn it
// is (S-2) fit into the time that a step has (S-1).
TEST(SchedulerStorm, S1PromptsAreAdmittedAsTheStreamsAllow) {
  ScheduleLimits limits = kLimits;
  limits.max_running = 30;
  limits.max_long_prefills = 30;
  limits.max_prefill_rows = 512;
  CheckedScheduler checked(600, limits, Model());
  const auto submit = [&](uint64_t id, int64_t prompt, int64_t answer) {
    SequenceSpec spec;
    spec.id = id;
    spec.prompt.assign(static_cast<size_t>(prompt), static_cast<TokenId>(id));
    spec.max_known = prompt + answer;
    ASSERT_TRUE(checked.Submit(std::move(spec)).has_value());
  };
  submit(1, 10, 1000);
  submit(2, 10, 1000);
  for (int i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(checked.Step());
  for (uint64_t id = 3; id < 23; ++id) submit(id, 400, 1);
  for (int step = 0; checked.live().size() > 2 && step < 2000; ++step) {
    const uint64_t before = checked.scheduler().counts().prompt_tokens;
    ASSERT_NO_FATAL_FAILURE(checked.Step());
    // 5 · 20 ms, of which 20 ms are the streams'.
    EXPECT_LE(checked.scheduler().counts().prompt_tokens - before, 80u) << step;
  }
  EXPECT_EQ(checked.live().size(), 2u);
  EXPECT_LT(checked.longest_wait(), limits.max_prefill_wait);
}

}  // namespace
}  // namespace baton
