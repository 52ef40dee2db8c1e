#include "evaluate/policy_legend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(PolicyLegend, LettersGoOnBehindZ) {
  EXPECT_EQ(PolicyLetter(0), "A");
  EXPECT_EQ(PolicyLetter(25), "Z");
  EXPECT_EQ(PolicyLetter(26), "AA");
  EXPECT_EQ(PolicyLetter(51), "AZ");
  EXPECT_EQ(PolicyLetter(52), "BA");
  EXPECT_EQ(PolicyLetter(701), "ZZ");
  EXPECT_EQ(PolicyLetter(702), "AAA");
}

TEST(PolicyLegend, NamesStandBesideTheirLettersWithinTheScreen) {
  EXPECT_EQ(LegendText({"default", "rule=share:0.15,1 window=64 shares=0:0.5,1:0.25,2:0.125"}, 24),
            "A  default\n"
            "B  rule=share:0.15,1\n"
            "   window=64\n"
            "   shares=0:0.5,1:0.25,\n"
            "   2:0.125\n");
  EXPECT_EQ(LegendText({}, 24), "");
  const std::vector<std::string> many(27, "default");
  EXPECT_THAT(LegendText(many, 0), ::testing::StartsWith("A   default\nB   default\n"));
  EXPECT_THAT(LegendText(many, 0), ::testing::EndsWith("Z   default\nAA  default\n"));
}

}  // namespace
}  // namespace baton
