#include "cli/profile_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace baton {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// A prefill of two layers: 1 ms of embedding, 2 and 5 ms of query, 2 ms of nothing in particular.
OpRecorder Recorded(ManualClock& clock) {
  OpRecorder recorder(clock, {.keep_spans = true});
  clock.AdvanceNs(77);
  recorder.BeginStep(StepKind::kPrefill, 1234, 2);
  const auto op = [&](StepOp which, int layer, int64_t ms) {
    const OpScope scope(&recorder, which, layer);
    clock.AdvanceNs(ms * 1'000'000);
  };
  op(StepOp::kEmbedding, -1, 1);
  op(StepOp::kQueryKeyValue, 0, 2);
  op(StepOp::kQueryKeyValue, 1, 5);
  clock.AdvanceNs(2'000'000);
  recorder.EndStep();
  return recorder;
}

TEST(Profile, TableHasSharesRestAndLayers) {
  ManualClock clock;
  const std::string text = ProfileText(Recorded(clock));
  EXPECT_THAT(text, HasSubstr("prefill of 1,234 rows"));
  EXPECT_THAT(text, ContainsRegex("query, key, value +7.0 ms +70.0 %"));
  EXPECT_THAT(text, ContainsRegex("everything else +2.0 ms +20.0 %"));
  EXPECT_THAT(text, ContainsRegex("steps +10.0 ms +100.0 %"));
  EXPECT_THAT(text, HasSubstr("most 5.0 ms (layer 1)"));
  EXPECT_THAT(text, Not(HasSubstr("decode")));
}

TEST(Profile, TraceIsWhatViewersRead) {
  ManualClock clock;
  const auto json = nlohmann::json::parse(TraceJson(Recorded(clock)));
  ASSERT_EQ(json.size(), 4u);
  EXPECT_EQ(json[0].at("name"), "prefill step");
  EXPECT_EQ(json[0].at("ts"), 0.0);
  EXPECT_EQ(json[0].at("dur"), 10000.0);
  EXPECT_EQ(json[3].at("name"), "query, key, value");
  EXPECT_EQ(json[3].at("ts"), 3000.0);
  EXPECT_EQ(json[3].at("dur"), 5000.0);
  EXPECT_EQ(json[3].at("args").at("layer"), 1);
  for (const auto& event : json) EXPECT_EQ(event.at("ph"), "X");
}

TEST(Profile, OfNothingIsStillWhole) {
  ManualClock clock;
  const OpRecorder recorder(clock, {.keep_spans = true});
  EXPECT_TRUE(nlohmann::json::parse(TraceJson(recorder)).empty());
  EXPECT_THAT(ProfileText(recorder), HasSubstr("nothing was computed"));
}

}  // namespace
}  // namespace baton
