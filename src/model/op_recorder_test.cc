#include "model/op_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace baton {
namespace {

TEST(OpRecorder, SumsByKindOperationAndLayer) {
  ManualClock clock;
  OpRecorder recorder(clock, {.keep_spans = true});
  const auto op = [&](StepOp which, int layer, int64_t ns) {
    const OpScope scope(&recorder, which, layer);
    clock.AdvanceNs(ns);
  };
  recorder.BeginStep(StepKind::kPrefill, 40, 2);
  op(StepOp::kEmbedding, -1, 5);
  op(StepOp::kQueryKeyValue, 0, 7);
  op(StepOp::kQueryKeyValue, 1, 11);
  clock.AdvanceNs(100);
  recorder.EndStep();
  recorder.BeginStep(StepKind::kDecode, 1, 2);
  op(StepOp::kQueryKeyValue, 1, 3);
  recorder.EndStep();

  EXPECT_EQ(recorder.steps(StepKind::kPrefill), 1);
  EXPECT_EQ(recorder.rows(StepKind::kPrefill), 40);
  EXPECT_EQ(recorder.step_ns(StepKind::kPrefill), 123);
  EXPECT_EQ(recorder.op_ns(StepKind::kPrefill, StepOp::kQueryKeyValue), 18);
  EXPECT_EQ(recorder.op_ns(StepKind::kPrefill, StepOp::kEmbedding), 5);
  EXPECT_EQ(recorder.op_ns(StepKind::kDecode, StepOp::kQueryKeyValue), 3);
  EXPECT_THAT(recorder.layer_ns(StepKind::kPrefill), testing::ElementsAre(7, 11));
  EXPECT_THAT(recorder.layer_ns(StepKind::kDecode), testing::ElementsAre(0, 3));
  ASSERT_EQ(recorder.spans().size(), 4u);
  EXPECT_EQ(recorder.spans()[2].begin_ns, 12);
  EXPECT_EQ(recorder.spans()[2].end_ns, 23);
  EXPECT_EQ(recorder.step_spans().size(), 2u);
}

TEST(OpRecorder, KeepsNoSpansUnasked) {
  ManualClock clock;
  OpRecorder recorder(clock, {});
  recorder.BeginStep(StepKind::kDecode, 1, 1);
  { const OpScope scope(&recorder, StepOp::kOutput, -1); }
  recorder.EndStep();
  EXPECT_TRUE(recorder.spans().empty());
  EXPECT_TRUE(recorder.step_spans().empty());
  const OpScope nothing(nullptr, StepOp::kOutput, 3);
}

TEST(OpRecorder, EveryOperationHasANameOfItsOwn) {
  std::set<std::string> names;
  for (int op = 0; op < kNumStepOps; ++op) {
    names.emplace(StepOpName(static_cast<StepOp>(op)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kNumStepOps));
  EXPECT_EQ(names.count(""), 0u);
}

}  // namespace
}  // namespace baton
