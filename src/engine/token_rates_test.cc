#include "engine/token_rates.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(TokenRates, NothingHasRun) {
  const TokenRates rates;
  EXPECT_EQ(rates.At(0, {}).prompt, 0);
  EXPECT_EQ(rates.At(100 * kSecond, {.prompt = 5, .generated = 5}).generated, 0);
  EXPECT_EQ(rates.At(100 * kSecond, {}).seconds, 0);
}

// A prompt is read at 300 tokens/s, in a first step of three seconds and a second one of one.
TEST(TokenRates, TheStepAtWorkCounts) {
  TokenRates rates;
  rates.BeginStep(100 * kSecond, {.prompt = 900, .generated = 0});
  EXPECT_EQ(rates.At(100 * kSecond, {}).prompt, 0);
  EXPECT_DOUBLE_EQ(rates.At(101 * kSecond, {.prompt = 300}).prompt, 300);
  EXPECT_DOUBLE_EQ(rates.At(101 * kSecond, {.prompt = 300}).seconds, 1);
  rates.EndStep(103 * kSecond, {.prompt = 900, .generated = 0});
  EXPECT_DOUBLE_EQ(rates.At(103 * kSecond, {}).prompt, 300);
  // What is said to be unfinished while no step is at work does not count.
  EXPECT_DOUBLE_EQ(rates.At(103 * kSecond, {.prompt = 300}).prompt, 300);
  rates.BeginStep(103 * kSecond, {.prompt = 300, .generated = 0});
  EXPECT_DOUBLE_EQ(rates.At(103 * kSecond + kSecond / 2, {.prompt = 150}).prompt, 300);
  rates.EndStep(104 * kSecond, {.prompt = 300, .generated = 1});
  EXPECT_DOUBLE_EQ(rates.At(104 * kSecond, {}).prompt, 300);
  EXPECT_EQ(rates.At(104 * kSecond, {}).generated, 0);
}

TEST(TokenRates, EachKindHasItsOwnTime) {
  TokenRates rates;
  rates.BeginStep(100 * kSecond, {.prompt = 600, .generated = 0});
  rates.EndStep(102 * kSecond, {.prompt = 600, .generated = 1});
  for (int64_t i = 0; i < 10; ++i) {
    rates.BeginStep(102 * kSecond + i * kSecond / 20, {.prompt = 0, .generated = 1});
    rates.EndStep(102 * kSecond + (i + 1) * kSecond / 20, {.prompt = 0, .generated = 1});
  }
  const TokenRates::PerSecond now = rates.At(102 * kSecond + kSecond / 2, {});
  EXPECT_DOUBLE_EQ(now.generated, 20);
  EXPECT_DOUBLE_EQ(now.prompt, 300);
  EXPECT_DOUBLE_EQ(now.seconds, 2);
}

TEST(TokenRates, WhatIsOldDoesNotCount) {
  TokenRates rates;
  rates.BeginStep(100 * kSecond, {.prompt = 100, .generated = 0});
  rates.EndStep(101 * kSecond, {.prompt = 100, .generated = 0});
  EXPECT_DOUBLE_EQ(rates.At(105 * kSecond, {}).prompt, 100);
  EXPECT_EQ(rates.At(106 * kSecond, {}).prompt, 0);
  // Idle time before a step does not make it look slow, be it long or short.
  for (const int64_t at : {200, 203}) {
    rates.BeginStep(at * kSecond, {.prompt = 100, .generated = 0});
    rates.EndStep((at + 1) * kSecond, {.prompt = 100, .generated = 0});
    EXPECT_DOUBLE_EQ(rates.At((at + 1) * kSecond, {}).prompt, 100);
  }
}

TEST(TokenRates, AStepThatWasGivenUpCountsNothing) {
  TokenRates rates;
  rates.BeginStep(100 * kSecond, {.prompt = 900, .generated = 1});
  rates.EndStep(103 * kSecond, {});
  EXPECT_EQ(rates.At(103 * kSecond, {.prompt = 300}).prompt, 0);
  EXPECT_EQ(rates.At(103 * kSecond, {}).seconds, 0);
}

// Longer than the window: its tokens took as long as it ran, not as long as the window.
TEST(TokenRates, AVeryLongStep) {
  TokenRates rates;
  rates.BeginStep(100 * kSecond, {.prompt = 900, .generated = 0});
  rates.EndStep(120 * kSecond, {.prompt = 900, .generated = 0});
  EXPECT_DOUBLE_EQ(rates.At(120 * kSecond, {}).prompt, 45);
}

TEST(TokenRates, SlotsAreUsedAgain) {
  TokenRates rates;
  for (int64_t i = 0; i < 1000; ++i) {
    rates.BeginStep(i * kSecond / 10, {.prompt = 10, .generated = 1});
    rates.EndStep((i + 1) * kSecond / 10, {.prompt = 10, .generated = 1});
  }
  EXPECT_NEAR(rates.At(100 * kSecond, {}).prompt, 100, 1e-9);
  EXPECT_NEAR(rates.At(100 * kSecond, {}).generated, 10, 1e-9);
}

}  // namespace
}  // namespace baton
