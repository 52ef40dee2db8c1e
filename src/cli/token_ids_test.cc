#include "cli/token_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ParseTokenIds, ReadsJsonListsAndNumbersBetweenBlanks) {
  EXPECT_THAT(ParseTokenIds("[1, 2,3]\n", "x").value(), ElementsAre(1, 2, 3));
  EXPECT_THAT(ParseTokenIds(" [ 1\n, 2 ] ", "x").value(), ElementsAre(1, 2));
  EXPECT_THAT(ParseTokenIds("1 2\n3\t4\r\n5", "x").value(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(ParseTokenIds("0 2147483647", "x").value(), ElementsAre(0, 2147483647));
  EXPECT_THAT(ParseTokenIds("[]", "x").value(), IsEmpty());
  EXPECT_THAT(ParseTokenIds(" \n", "x").value(), IsEmpty());
  EXPECT_THAT(ParseTokenIdOption("1,2").value(), ElementsAre(1, 2));
}

TEST(ParseTokenIds, RefusesWhatIsNeither) {
  for (const char* text : {"-1",      "-0",         "+1",     "1.5",  "1e3",
                           "0x1",     "2147483648", "[1,,2]", "[1,]", "[,1]",
                           "[,]",     "[1 2]",      "[1",     "[",    "1]",
                           "a",       "1;2",        "1,2",    "1, 2", ",1",
                           "[[1]]",   "007",        "00",     "[01]", "99999999999999999999",
                           "\xC2\xA0"}) {
    EXPECT_FALSE(ParseTokenIds(text, "x").has_value()) << text;
  }
  for (const char* text : {"", "1 2", "1,", ",1", "[1]", "1,,2", "01"}) {
    EXPECT_FALSE(ParseTokenIdOption(text).has_value()) << text;
  }
  EXPECT_THAT(ParseTokenIds("7 x", "ids.json").error().message,
              HasSubstr("ids.json: 'x' (number 2 of the list)"));
}

TEST(CheckTokenIds, NamesThePlace) {
  EXPECT_TRUE(CheckTokenIds({0, 9}, 10, "x").has_value());
  EXPECT_EQ(CheckTokenIds({0, 9, 10}, 10, "ids").error().message,
            "ids: 10 (number 3 of the list) is no token of this model; its ids go from 0 to 9");
}

TEST(ParsePositions, ReadsNumbersAndRanges) {
  const PositionListLimits limits = {.end = 100, .max_count = 10};
  EXPECT_THAT(ParsePositions("0,5,10-12", limits).value(), ElementsAre(0, 5, 10, 11, 12));
  EXPECT_THAT(ParsePositions("99", limits).value(), ElementsAre(99));
  for (const char* text : {"", "100", "-1", "5-", "6-5", "1,,2", "0-10", "a", "1 2"}) {
    EXPECT_FALSE(ParsePositions(text, limits).has_value()) << text;
  }
}

}  // namespace
}  // namespace baton
