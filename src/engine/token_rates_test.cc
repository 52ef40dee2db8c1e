#include "engine/token_rates.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST(TokenRates, CountsTheLastSecondsOnly) {
  TokenRates rates;
  EXPECT_EQ(rates.At(0).prompt, 0);
  rates.Note(100 * kSecond, {.prompt = 900, .generated = 9});
  rates.Note(101 * kSecond, {.prompt = 0, .generated = 18});
  // From 96.5 to 101: nine slots of half a second.
  EXPECT_DOUBLE_EQ(rates.At(101 * kSecond).seconds, 4.5);
  EXPECT_DOUBLE_EQ(rates.At(101 * kSecond).prompt, 200);
  EXPECT_DOUBLE_EQ(rates.At(101 * kSecond).generated, 6);
  // At 105 the slot of 100 is out, that of 101 is in.
  EXPECT_DOUBLE_EQ(rates.At(105 * kSecond).prompt, 0);
  EXPECT_DOUBLE_EQ(rates.At(105 * kSecond).generated, 4);
  EXPECT_EQ(rates.At(200 * kSecond).generated, 0);
}

TEST(TokenRates, SlotsAreUsedAgain) {
  TokenRates rates;
  for (int64_t i = 0; i < 1000; ++i) rates.Note(i * kSecond / 10, {.prompt = 10, .generated = 1});
  EXPECT_NEAR(rates.At(100 * kSecond).prompt, 100, 1e-9);
  EXPECT_NEAR(rates.At(100 * kSecond).generated, 10, 1e-9);
}

}  // namespace
}  // namespace baton
