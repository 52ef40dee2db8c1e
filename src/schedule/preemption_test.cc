#include "schedule/preemption.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace baton {
namespace {

std::optional<size_t> Victim(const std::vector<PreemptionCandidate>& candidates) {
  return ChooseVictim(candidates, 64);
}

TEST(Preemption, S5TheOldestIsNeverTheVictim) {
  EXPECT_EQ(Victim({}), std::nullopt);
  EXPECT_EQ(Victim({{.priority = -5, .progress = 1000}}), std::nullopt);
  EXPECT_EQ(Victim({{.priority = -5, .progress = 1000}, {.priority = 9, .progress = 64}}), 1u);
}

TEST(Preemption, S5WhoGainedTooLittleIsSpared) {
  EXPECT_EQ(Victim({{.priority = 0, .progress = 1000}, {.priority = 0, .progress = 63}}),
            std::nullopt);
  EXPECT_EQ(Victim({{.priority = 0, .progress = 1000}, {.priority = 0, .progress = 64}}), 1u);
}

TEST(Preemption, TheLowestPriorityThenTheYoungest) {
  EXPECT_EQ(Victim({{.priority = 0, .progress = 99},
                    {.priority = 1, .progress = 99},
                    {.priority = -1, .progress = 99},
                    {.priority = -1, .progress = 99},
                    {.priority = 2, .progress = 99}}),
            3u);
}

TEST(Preemption, AnyListGivesTheBestOfThoseAllowed) {
  RandomStream random({.seed = 4, .stream = 0});
  int found = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<PreemptionCandidate> list(random.NextBelow(8));
    for (PreemptionCandidate& c : list) {
      c = {.priority = static_cast<int32_t>(random.NextBelow(3)) - 1,
           .progress = static_cast<int64_t>(random.NextBelow(4)) * 32};
    }
    const std::optional<size_t> victim = Victim(list);
    for (size_t i = 1; i < list.size(); ++i) {
      if (list[i].progress < 64) continue;
      ASSERT_TRUE(victim.has_value());
      ASSERT_TRUE(list[*victim].priority < list[i].priority ||
                  (list[*victim].priority == list[i].priority && *victim >= i));
    }
    if (!victim) continue;
    ++found;
    ASSERT_GT(*victim, 0u);
    ASSERT_GE(list[*victim].progress, 64);
  }
  EXPECT_GT(found, 1000);
}

}  // namespace
}  // namespace baton
