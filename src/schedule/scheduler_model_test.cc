// The scheduler under anything that can happen, in any order, with hardly any room: after every
// operation the books are compared, in every step each block's content.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "schedule/test_checked_scheduler.h"

namespace baton {
namespace {

constexpr int64_t kContext = 480;

class RandomMix {
 public:
  explicit RandomMix(uint64_t seed)
      : random_({.seed = seed, .stream = 0}),
        num_blocks_(7 + static_cast<int32_t>(Below(24))),
        limits_(Limits()),
        checked_(num_blocks_, limits_, Model()) {}

  void Run(int num_operations) {
    for (int i = 0; i < num_operations; ++i) {
      ASSERT_NO_FATAL_FAILURE(OneOperation()) << "operation " << i;
    }
    // Nobody starves: what is left ends, and not later than if each had run alone, with its
    // prompt in the smallest chunks, read again after each preemption.
    ASSERT_NO_FATAL_FAILURE(checked_.Drain(100000));
    ASSERT_NO_FATAL_FAILURE(checked_.CheckIdle());
    if (limits_.max_prefill_rows >= limits_.max_running) {
      ASSERT_LT(checked_.longest_wait(), limits_.max_prefill_wait) << "S-2";
    }
  }

  const ScheduleCounts& counts() { return checked_.scheduler().counts(); }
  int refused() const { return refused_; }
  int abandoned() const { return abandoned_; }
  int expired() const { return expired_; }

 private:
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(random_.NextBelow(static_cast<uint64_t>(bound)));
  }

  ScheduleLimits Limits() {
    return {.max_running = 1 + static_cast<int32_t>(Below(8)),
            .max_context = kContext,
            .max_prefill_rows = Below(3) == 0 ? 1 + Below(40) : 32 + Below(300),
            .max_queue_requests = 1 + Below(12),
            .max_queue_tokens = 400 + Below(3000),
            .max_gap_steps = 1.0 + static_cast<double>(Below(8)),
            .max_prefill_wait = 1 + static_cast<int32_t>(Below(5)),
            .long_prompt_tokens = 50 + Below(200),
            .max_long_prefills = 1 + static_cast<int32_t>(Below(2)),
            .max_passes = static_cast<int32_t>(Below(5)),
            .min_progress_tokens = 1 + Below(64),
            .prefix_cache = Below(5) > 0};
  }

  // Nothing known, or a fit in which prompts cost much or little beside decode.
  StepTimeModel Model() {
    StepTimeModel model;
    const int64_t kind = Below(3);
    for (int i = 0; kind > 0 && i < 100; ++i) {
      StepFeatures features;
      features.AddPrefill(1 + Below(300), Below(300));
      for (int64_t row = Below(4); row > 0; --row) features.AddDecode(Below(300));
      model.Observe(features, 1e-3 + (kind == 1 ? 1e-3 : 1e-5) * features.prefill_tokens +
                                  1e-3 * features.decode_rows);
    }
    return model;
  }

  // A prompt from one of three documents, so that prefixes are shared, and a few tokens of its own.
  std::vector<TokenId> Prompt() {
    std::vector<TokenId> prompt;
    const int64_t document = Below(3);
    for (int64_t i = Below(Below(2) == 0 ? 200 : 1); i > 0; --i) {
      prompt.push_back(static_cast<TokenId>((std::ssize(prompt) * 7 + document * 31) % 500));
    }
    for (int64_t i = 1 + Below(Below(4) == 0 ? 180 : 5); i > 0; --i) {
      prompt.push_back(static_cast<TokenId>(Below(3)));
    }
    return prompt;
  }

  void Submit() {
    SequenceSpec spec;
    spec.id = next_id_++;
    spec.prompt = Prompt();
    const auto num_prompt = std::ssize(spec.prompt);
    spec.max_known = std::min(num_prompt + 1 + Below(Below(2) == 0 ? 400 : 20), kContext);
    spec.priority = static_cast<int32_t>(Below(3)) - 1;
    if (Below(5) == 0) spec.deadline = now_ + static_cast<double>(Below(100));
    spec.salt = {.low = static_cast<uint64_t>(Below(2)), .high = 0};
    spec.session = Below(3) == 0 ? static_cast<uint64_t>(1 + Below(3)) : 0;
    Scheduler& scheduler = checked_.scheduler();
    const bool fits = NumBlocksFor(spec.max_known) <= num_blocks_;
    const bool has_place = scheduler.num_waiting() < limits_.max_queue_requests &&
                           scheduler.waiting_tokens() + num_prompt <= limits_.max_queue_tokens;
    const Result<> taken = checked_.Submit(std::move(spec));
    ASSERT_EQ(taken.has_value(), fits && has_place);
    if (taken) return;
    ++refused_;
    ASSERT_EQ(taken.error().code, fits ? ErrorCode::kExhausted : ErrorCode::kInvalid);
  }

  void OneOperation() {
    now_ += 1;
    const int64_t what = Below(100);
    if (what < 20) {
      ASSERT_NO_FATAL_FAILURE(Submit());
    } else if (what < 22) {
      const std::vector<uint64_t> live = checked_.live();
      if (!live.empty()) checked_.End(live[static_cast<size_t>(Below(std::ssize(live)))]);
    } else if (what < 25) {
      const std::span<const uint64_t> ids = checked_.scheduler().Expired(now_);
      expired_ += static_cast<int>(ids.size());
      for (const uint64_t id : std::vector<uint64_t>(ids.begin(), ids.end())) checked_.End(id);
    } else if (what < 28) {
      ASSERT_NO_FATAL_FAILURE(checked_.Plan());
      ASSERT_NO_FATAL_FAILURE(checked_.Abandon());
      ++abandoned_;
    } else if (what < 29) {
      (void)checked_.scheduler().MakeFree(Below(num_blocks_));
    } else if (!checked_.live().empty()) {
      ASSERT_NO_FATAL_FAILURE(checked_.Step());
    }
    const Result<> books = checked_.scheduler().CheckIntegrity();
    ASSERT_TRUE(books.has_value()) << books.error().message;
  }

  RandomStream random_;
  int32_t num_blocks_;
  ScheduleLimits limits_;
  CheckedScheduler checked_;
  uint64_t next_id_ = 1;
  double now_ = 0;
  int refused_ = 0;
  int abandoned_ = 0;
  int expired_ = 0;
};

TEST(SchedulerModel, AnythingInAnyOrderKeepsTheContract) {
  ScheduleCounts all;
  int refused = 0;
  int abandoned = 0;
  int expired = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomMix mix(seed);
    ASSERT_NO_FATAL_FAILURE(mix.Run(600)) << "seed " << seed;
    const ScheduleCounts& counts = mix.counts();
    all.steps += counts.steps;
    all.admissions += counts.admissions;
    all.preemptions += counts.preemptions;
    all.prefix_hit_tokens += counts.prefix_hit_tokens;
    refused += mix.refused();
    abandoned += mix.abandoned();
    expired += mix.expired();
  }
  // All of it happened.
  EXPECT_GT(all.steps, 100000u);
  EXPECT_GT(all.admissions, 10000u);
  EXPECT_GT(all.preemptions, 300u);
  EXPECT_GT(all.prefix_hit_tokens, 40000u);
  EXPECT_GT(refused, 1000);
  EXPECT_GT(abandoned, 1000);
  EXPECT_GT(expired, 300);
}

}  // namespace
}  // namespace baton
