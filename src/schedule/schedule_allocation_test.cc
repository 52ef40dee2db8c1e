// No step allocates once it is warm: not the fit, not the choice of chunks, not a round of the
// scheduler, whatever it holds.
#include <gtest/gtest.h>

#include <vector>

#include "base/test_allocation_count.h"
#include "schedule/prefill_policy.h"
#include "schedule/scheduler.h"
#include "schedule/test_executor.h"

namespace baton {
namespace {

StepTimeModel Fitted() {
  StepTimeModel model;
  for (int i = 1; i < 50; ++i) {
    StepFeatures features;
    features.AddPrefill(i * 10, i * 31 % 400);
    features.AddDecode(i);
    model.Observe(features, 1e-3 * static_cast<double>(i));
  }
  return model;
}

TEST(ScheduleAllocation, TheFitAllocatesNothing) {
  StepTimeModel model = Fitted();
  const int64_t before = AllocationCount();
  StepFeatures features;
  features.AddPrefill(200, 100);
  model.Observe(features, 0.02);
  model.LargestChunk({.budget_seconds = 1.0,
                      .base = features,
                      .computed = 100,
                      .max_tokens = 5000,
                      .granularity = 128});
  EXPECT_EQ(AllocationCount(), before);
}

TEST(ScheduleAllocation, TheChoiceOfChunksAllocatesNothing) {
  const std::vector<PrefillCandidate> candidates(
      20, {.computed = 0, .pending = 1000, .waited = 3, .is_long = true});
  std::vector<int64_t> chunks(20);
  StepFeatures streams;
  streams.AddDecode(100);
  const PrefillBudget budget = {.rows = 512, .seconds = 0.1, .max_wait = 4, .decode = streams};
  const StepTimeModel model = Fitted();
  const int64_t before = AllocationCount();
  ChoosePrefillChunks(model, candidates, budget, chunks);
  EXPECT_EQ(AllocationCount(), before);
}

TEST(ScheduleAllocation, StepsOfRunningSequencesAllocateNothing) {
  BlockPool pool = TestExecutor::MakePool(200);
  Scheduler scheduler({.pool = pool,
                       .kv_key = {},
                       .limits = {.max_running = 4,
                                  .max_context = 2000,
                                  .max_prefill_rows = 64,
                                  .max_queue_requests = 10,
                                  .max_queue_tokens = 10000,
                                  .long_prompt_tokens = 500},
                       .time_model = Fitted()});
  for (uint64_t id = 0; id < 6; ++id) {
    SequenceSpec spec;
    spec.id = id;
    spec.prompt.assign(300, static_cast<TokenId>(id));
    spec.max_known = 1500;
    ASSERT_TRUE(scheduler.Submit(std::move(spec)).has_value());
  }
  std::vector<uint64_t> ids;
  ids.reserve(8);
  const auto step = [&] {
    (void)scheduler.Plan();
    ids.clear();
    for (const Sequence* sequence : scheduler.planned()) ids.push_back(sequence->spec.id);
    scheduler.Commit(0.01);
    for (const uint64_t id : ids) {
      if (scheduler.Find(id)->ledger.num_pending() == 0) scheduler.Push(id, 5);
    }
  };
  for (int i = 0; i < 100; ++i) step();
  const int64_t before = AllocationCount();
  for (int i = 0; i < 500; ++i) step();
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_EQ(scheduler.running().size(), 4u);
  EXPECT_EQ(scheduler.num_waiting(), 2);
}

}  // namespace
}  // namespace baton
