#include "base/wrapped_text.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(ScreenColumns, CountsCharactersNotBytes) {
  EXPECT_EQ(ScreenColumns(""), 0u);
  EXPECT_EQ(ScreenColumns("a b"), 3u);
  EXPECT_EQ(ScreenColumns("\u00fcx\u20ac"), 3u);
}

TEST(WrapWords, BreaksAtBlanksAndLongWordsBehindCommas) {
  EXPECT_EQ(WrapWords("one two three", {.columns = 8, .indent = 0}), "one two\nthree");
  EXPECT_EQ(WrapWords("one two three", {.columns = 8, .indent = 3}), "one\n   two\n   three");
  EXPECT_EQ(WrapWords("a list=1:2,3:4,5:6 b", {.columns = 10, .indent = 0}),
            "a\nlist=1:2,\n3:4,5:6 b");
  EXPECT_EQ(WrapWords("unbreakable,x", {.columns = 5, .indent = 2}), "unbreakable,\n  x");
  // Umlauts are one column.
  EXPECT_EQ(WrapWords("\u00fc\u00fc \u00fc\u00fc", {.columns = 5, .indent = 0}),
            "\u00fc\u00fc \u00fc\u00fc");
  EXPECT_EQ(WrapWords("", {.columns = 5, .indent = 2}), "");
  EXPECT_EQ(WrapWords("two  blanks", {.columns = 50, .indent = 0}), "two  blanks");
  EXPECT_EQ(WrapWords(std::string(50, 'a') + " " + std::string(50, 'b'), {}),
            std::string(50, 'a') + "\n" + std::string(50, 'b'));
  EXPECT_EQ(WrapWords("a b", {.columns = 2, .indent = 9}), "a\n         b");
}

TEST(TwoColumns, TextStandsBesideTheNameOrBelow) {
  EXPECT_EQ(TwoColumns("  -n N", "one two", {.columns = 80, .indent = 10}), "  -n N    one two\n");
  EXPECT_EQ(TwoColumns("  --long", "one two", {.columns = 80, .indent = 10}),
            "  --long  one two\n");
  EXPECT_EQ(TwoColumns("  --longer", "one two", {.columns = 0, .indent = 10}),
            "  --longer\n          one two\n");
  // 24 columns for the text, or a smaller indent.
  EXPECT_EQ(TwoColumns("  --flag", "words that are wrapped here", {.columns = 40, .indent = 16}),
            "  --flag        words that are wrapped\n                here\n");
  EXPECT_EQ(TwoColumns("  --flag", "words that are wrapped here", {.columns = 39, .indent = 16}),
            "  --flag\n        words that are wrapped here\n");
}

TEST(LabelledLine, WrapsTheValueOnly) {
  EXPECT_EQ(LabelledLine("one two", "1  (a, b)", {.columns = 80, .indent = 9}),
            "one two  1  (a, b)\n");
  EXPECT_EQ(LabelledLine("one two", "1  (a, b)", {.columns = 15, .indent = 9}),
            "one two  1  (a,\n         b)\n");
}

TEST(LabelledLineDeathTest, LabelsEndBeforeTheirValue) {
  EXPECT_EQ(LabelledLine("\u00fc\u00fc\u00fc", "x", {.columns = 80, .indent = 4}),
            "\u00fc\u00fc\u00fc x\n");
  EXPECT_DEATH(LabelledLine("four", "x", {.columns = 80, .indent = 4}),
               "ScreenColumns\\(label\\) < shape.indent: 4 against 4");
}

}  // namespace
}  // namespace baton
