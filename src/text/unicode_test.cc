#include "text/unicode.h"

#include <gtest/gtest.h>

#include <string>

namespace baton {
namespace {

// Every code point, encoded and read back; surrogates and numbers above 10FFFF are ill-formed.
TEST(Utf8, EveryCodePointReadsBack) {
  for (uint32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(code_point, text);
    const Utf8Step step = StepUtf8(text, 0);
    ASSERT_TRUE(step.valid) << code_point;
    ASSERT_EQ(step.code_point, code_point);
    ASSERT_EQ(step.length, text.size()) << code_point;
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(IncompleteUtf8TailLength(std::string_view(text).substr(0, cut)), cut);
    }
    ASSERT_EQ(IncompleteUtf8TailLength(text), 0u);
  }
}

// The Unicode standard's own example (section 3.9, table 3-8 and those after it): where the bounds
// of the replaced parts are.
TEST(Utf8, IllFormedPartsAreReplacedAsTheStandardShows) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(ReplaceInvalidUtf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "\x61" + r + r + r + "\x62" + r + "\x63" + r + r + "\x64");
  EXPECT_EQ(ReplaceInvalidUtf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            r + r + r + r + r + r + r + r + "\x41");
  EXPECT_EQ(ReplaceInvalidUtf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            r + r + r + r + r + r + r + r + "\x41");
  EXPECT_EQ(ReplaceInvalidUtf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            r + r + r + r + r + "\x41" + r + r + "\x42");
  EXPECT_EQ(ReplaceInvalidUtf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "\x41");
  EXPECT_FALSE(IsValidUtf8("\xED\xA0\x80"));
  EXPECT_EQ(ValidUtf8PrefixLength("ab\xC3\xA9\xC3"), 4u);
}

TEST(Utf8, TailsThatCannotBecomeCharactersAreNotIncomplete) {
  EXPECT_EQ(IncompleteUtf8TailLength(""), 0u);
  EXPECT_EQ(IncompleteUtf8TailLength("a\x80"), 0u);         // a stray continuation
  EXPECT_EQ(IncompleteUtf8TailLength("\xE0\x80"), 0u);      // overlong
  EXPECT_EQ(IncompleteUtf8TailLength("\xED\xA0"), 0u);      // a surrogate
  EXPECT_EQ(IncompleteUtf8TailLength("\xF4\x90\x80"), 0u);  // above 10FFFF
  EXPECT_EQ(IncompleteUtf8TailLength("\xC0"), 0u);
  EXPECT_EQ(IncompleteUtf8TailLength("\xFF"), 0u);
  EXPECT_EQ(IncompleteUtf8TailLength("\xE2\x82\x28\xF0\x9F"), 2u);
}

TEST(Nfc, ComposesAndLeavesTheRestAlone) {
  EXPECT_EQ(NormalizeNfc("e\xCC\x81x").value(), "\xC3\xA9x");
  EXPECT_EQ(NormalizeNfc("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB").value(), "\xED\x95\x9C");
  EXPECT_EQ(NormalizeNfc("\xEF\xAC\x81 plain").value(), "\xEF\xAC\x81 plain");  // a ligature stays
  EXPECT_EQ(NormalizeNfc("").value(), "");
}

TEST(Spaces, AreUnicodesWhiteSpace) {
  int count = 0;
  for (uint32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
    count += IsUnicodeSpace(code_point) ? 1 : 0;
  }
  EXPECT_EQ(count, 25);  // PropList.txt: "Total code points: 25"
  EXPECT_TRUE(IsUnicodeSpace(0x85));
  EXPECT_FALSE(IsUnicodeSpace(0x180E));
  EXPECT_FALSE(IsUnicodeSpace(0x200B));
}

}  // namespace
}  // namespace baton
