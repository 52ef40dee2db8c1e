#include "bench/text_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace baton {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> LinesOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TextTable Table() {
  TextTable table({"what", ">one", ">never", ">two", ">three"});
  table.AddRow({"a row", "1", "", "2.5", "3"});
  table.AddRow({"b", "11", "", "", "333"});
  return table;
}

TEST(TextTable, IsAsWideAsItsCellsAndLeavesOutWhatIsEmpty) {
  EXPECT_EQ(Table().Width(), 5u + 2 + 3 + 2 + 3 + 2 + 5);
  for (const size_t columns : {0u, 22u, 100u}) {
    EXPECT_THAT(LinesOf(Table().ToText(columns)), ElementsAre("what   one  two  three",  //
                                                              "a row    1  2.5      3",  //
                                                              "b       11         333"));
  }
}

TEST(TextTable, StandsCloserWhereItDoesNotFit) {
  for (const size_t columns : {21u, 19u}) {
    EXPECT_THAT(LinesOf(Table().ToText(columns)), ElementsAre("what  one two three",  //
                                                              "a row   1 2.5     3",  //
                                                              "b      11       333"));
  }
}

TEST(TextTable, GoesOnBelowWithItsKeys) {
  EXPECT_THAT(LinesOf(Table().ToText(18)),
              ElementsAre("what   one  two", "a row    1  2.5", "b       11", "",  //
                          "what   three", "a row      3", "b        333"));
  TextTable keyed({">n", ">m", ">x", ">y"}, 2);
  keyed.AddRow({"10", "20", "30", "40"});
  EXPECT_THAT(LinesOf(keyed.ToText(10)),
              ElementsAre(" n   m   x", "10  20  30", "", " n   m   y", "10  20  40"));
  // Closer, too, where a part would not fit.
  EXPECT_THAT(LinesOf(keyed.ToText(9)),
              ElementsAre(" n  m  x", "10 20 30", "", " n  m  y", "10 20 40"));
}

TEST(TextTable, NothingIsWiderThanTheScreenIfItsWordsAreNot) {
  TextTable table({"policy", ">kept", ">KL", ">P95", ">P99", ">max"});
  table.AddRow({"rule=share:0.15 dense-layers=6,7 dense-heads=17:1,18:2", "0.366", "0.0147",
                "0.0600", "0.1700", "0.4400"});
  table.AddRow({"default", "0.356", "0.0233", "0.0900", "0.2800", "0.7200"});
  for (size_t columns = 40; columns < 120; ++columns) {
    const std::string text = table.ToText(columns);
    for (const std::string& line : LinesOf(text)) EXPECT_LE(line.size(), columns) << text;
    for (const char* const cell : {"0.366", "0.0147", "0.4400", "17:1,18:2", "default"}) {
      EXPECT_NE(text.find(cell), std::string::npos) << columns;
    }
  }
  EXPECT_THAT(LinesOf(table.ToText(60)),
              ElementsAre("policy                   kept     KL    P95    P99    max",
                          "rule=share:0.15         0.366 0.0147 0.0600 0.1700 0.4400",
                          "  dense-layers=6,7", "  dense-heads=17:1,18:2",
                          "default                 0.356 0.0233 0.0900 0.2800 0.7200"));
}

}  // namespace
}  // namespace baton
