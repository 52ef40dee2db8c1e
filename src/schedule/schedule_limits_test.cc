#include "schedule/schedule_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr ScheduleLimits kGood = {.max_running = 8,
                                  .max_context = 4096,
                                  .max_prefill_rows = 512,
                                  .max_queue_requests = 100,
                                  .max_queue_tokens = 100000,
                                  .long_prompt_tokens = 2048};

TEST(ScheduleLimits, TakesTheEndsOfEachRange) {
  EXPECT_TRUE(Validate(kGood).has_value());
  ScheduleLimits least = kGood;
  least.max_running = 1;
  least.max_context = 1;
  least.max_prefill_rows = 1;
  least.max_queue_requests = 1;
  least.max_queue_tokens = 1;
  least.max_gap_steps = 1.0;
  least.max_prefill_wait = 1;
  least.long_prompt_tokens = 1;
  least.max_long_prefills = 1;
  least.max_passes = 0;
  least.min_progress_tokens = 1;
  EXPECT_TRUE(Validate(least).has_value());
}

TEST(ScheduleLimits, RefusesWhatIsOutsideNamingFieldValueAndRange) {
  const struct {
    const char* name;
    const char* value;
    std::function<void(ScheduleLimits&)> spoil;
  } cases[] = {
      {"max_running must be in 1..4096", "got 0", [](auto& l) { l.max_running = 0; }},
      {"max_running", "got 4097", [](auto& l) { l.max_running = 4097; }},
      {"max_context", "got 0", [](auto& l) { l.max_context = 0; }},
      {"max_prefill_rows", "got -1", [](auto& l) { l.max_prefill_rows = -1; }},
      {"max_queue_requests", "got 0", [](auto& l) { l.max_queue_requests = 0; }},
      {"max_queue_tokens", "got 0", [](auto& l) { l.max_queue_tokens = 0; }},
      {"max_gap_steps must be at least 1", "got 0.5", [](auto& l) { l.max_gap_steps = 0.5; }},
      {"max_gap_steps", "got nan",
       [](auto& l) { l.max_gap_steps = std::numeric_limits<double>::quiet_NaN(); }},
      {"max_gap_steps", "got inf",
       [](auto& l) { l.max_gap_steps = std::numeric_limits<double>::infinity(); }},
      {"max_prefill_wait", "got 0", [](auto& l) { l.max_prefill_wait = 0; }},
      {"long_prompt_tokens", "got 0", [](auto& l) { l.long_prompt_tokens = 0; }},
      {"max_long_prefills", "got 0", [](auto& l) { l.max_long_prefills = 0; }},
      {"max_passes", "got -1", [](auto& l) { l.max_passes = -1; }},
      {"min_progress_tokens must be in 1..64", "got 0", [](auto& l) { l.min_progress_tokens = 0; }},
      // More could be asked for, but not kept: the block that admission promises holds 64.
      {"min_progress_tokens", "got 65", [](auto& l) { l.min_progress_tokens = 65; }},
  };
  for (const auto& test : cases) {
    ScheduleLimits limits = kGood;
    test.spoil(limits);
    const Result<> valid = Validate(limits);
    ASSERT_FALSE(valid.has_value()) << test.name;
    EXPECT_EQ(valid.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(valid.error().message, HasSubstr(test.name));
    EXPECT_THAT(valid.error().message, HasSubstr(test.value));
  }
}

}  // namespace
}  // namespace baton
