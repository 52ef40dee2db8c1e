#include "cli/token_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ParseTokenIds, ReadsListsAndBlanks) {
  EXPECT_THAT(ParseTokenIds("[1, 2,3]\n", "x").value(), ElementsAre(1, 2, 3));
  EXPECT_THAT(ParseTokenIds("1 2\n3\t4,5", "x").value(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(ParseTokenIds("2147483647", "x").value(), ElementsAre(2147483647));
  EXPECT_THAT(ParseTokenIds("[]", "x").value(), IsEmpty());
  EXPECT_THAT(ParseTokenIds(" \n", "x").value(), IsEmpty());
}

TEST(ParseTokenIds, RefusesWhatIsNone) {
  for (const char* text : {"-1", "1.5", "2147483648", "[1,,2]", "[1", "a", "1;2", ",1", "[[1]]",
                           "99999999999999999999"}) {
    EXPECT_FALSE(ParseTokenIds(text, "x").has_value()) << text;
  }
  EXPECT_THAT(ParseTokenIds("7 x", "ids.json").error().message,
              HasSubstr("ids.json: 'x' (number 2 of the list)"));
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
