#include "cli/printable.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(Printable, OrdinaryTextStays) {
  EXPECT_EQ(Printable("Grüße, 漢字 🦉", 100), "Grüße, 漢字 🦉");
  EXPECT_EQ(Printable("", 100), "");
}

TEST(Printable, ControlsAndBrokenBytesAreSpelledOut) {
  EXPECT_EQ(Printable("a\n\tb", 100), "a\\n\\tb");
  EXPECT_EQ(Printable("\x1b[31m\x7f", 100), "\\x1B[31m\\x7F");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "2J",
                      100),
            "\\xC2\\x9B2J");
  EXPECT_EQ(Printable("x\xff", 100), "x\\xFF");
}

TEST(Printable, CutsBetweenCharacters) {
  EXPECT_EQ(Printable("äää", 4), "ää...");
  EXPECT_EQ(Printable("äää", 5), "ää...");
  EXPECT_EQ(Printable("äää", 6), "äää");
}

TEST(PrintableEnds, KeepsWhatStandsLast) {
  EXPECT_EQ(PrintableEnds("a\nb", 10), "a\\nb");
  EXPECT_EQ(PrintableEnds("0123456789", 10), "0123456789");
  EXPECT_EQ(PrintableEnds("begin" + std::string(1000, 'x') + "; end", 15), "beginxxxxx...; end");
  // No character is torn.
  EXPECT_EQ(PrintableEnds("\u20ac\u20ac\u20ac\u20ac\u20ac\u20ac", 11), "\u20ac\u20ac...\u20ac");
}

}  // namespace
}  // namespace baton
