// Pictures: what they must show, and that the numbers in them are the right ones.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "evaluate/heat_map.h"
#include "evaluate/trade_off_plot.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(ParetoFront, HasWhatNothingBeats) {
  EXPECT_THAT(ParetoFront({}), IsEmpty());
  EXPECT_THAT(ParetoFront({{"a", 0.5, 0.1}, {"b", 0.4, 0.2}, {"c", 0.6, 0.1}, {"d", 0.5, 0.3}}),
              ElementsAre(1, 0));
  // Of equals the first.
  EXPECT_THAT(ParetoFront({{"a", 0.5, 0.1}, {"b", 0.5, 0.1}}), ElementsAre(0));
}

TEST(TradeOff, ShowsAllPointsEvenThoseWithoutLoss) {
  TradeOffPlot plot = {.title = "a < b", .panels = {{.title = "left"}, {.title = "right"}}};
  for (TradeOffPanel& panel : plot.panels) {
    panel.points = {{"all", 1.0, 0.0}, {"half", 0.5, 0.02}, {"some", 0.3, HUGE_VAL}};
  }
  const std::string svg = TradeOffAsSvg(plot);
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  for (const char* const word : {">left<", ">right<", ">all<", ">half<", ">some<"}) {
    EXPECT_THAT(svg, HasSubstr(word));
  }
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(TradeOffAsSvg({}), HasSubstr("</svg>"));
}

TEST(HeatMap, WritesNumbersIntoWideCells) {
  HeatMap map = {.title = "t",
                 .columns = {"0", "1"},
                 .rows = {"a"},
                 .values = {{0.25, NAN}},
                 .cell_width = 40};
  EXPECT_THAT(HeatMapPart(map).svg, HasSubstr(">0.25<"));
  map.cell_width = 27;
  EXPECT_THAT(HeatMapPart(map).svg, HasSubstr(">.25<"));
  map.cell_width = 12;
  EXPECT_THAT(HeatMapPart(map).svg, Not(HasSubstr(".25<")));
}

// 72 letters of the bold 13 pixels of a panel's title are 7.7 pixels wide each, in a usual font.
TEST(HeatMap, TheFrameHasRoomForALongTitle) {
  const HeatMap map = {.title = std::string(72, 'n'),
                       .columns = {"0"},
                       .rows = {"a"},
                       .values = {{0.25}},
                       .cell_width = 40};
  const SvgPart part = HeatMapPart(map);
  EXPECT_GT(part.width, 72 * 7.7);
  const std::string page = PageAsSvg({.title = "t", .subtitle = "s", .parts = {part}});
  EXPECT_THAT(page, HasSubstr(fmt::format("width=\"{:.0f}\"", part.width)));
}

// Tile 3 of blocks 0..3 keeps 0 (the sink), 2 (chosen) and 3 (its own); 1 is dropped.
TEST(KeptMap, TellsChosenFromAlwaysKept) {
  const SparsePolicy policy = {.sink_tokens = 64, .window_tokens = 64};
  const KeptMap map = {
      .layer = 5,
      .kv_head = 2,
      .tiles = {{.first_position = 192,
                 .last_position = 255,
                 .blocks = {.low = 0, .edge = 0, .scored_end = 4, .first = 3, .last = 3},
                 .is_dense = false,
                 .kept = {0, 2, 3}}}};
  const std::string svg = KeptMapPart(map, policy).svg;
  EXPECT_THAT(svg, HasSubstr("Layer 5, KV head 2"));
  EXPECT_THAT(svg, HasSubstr("fill=\"#c9d3dc\" d=\"M1 0h1v1h-1z\""));
  EXPECT_THAT(svg, HasSubstr("fill=\"#2a6fbb\" d=\"M0 0h1v1h-1zM3 0h1v1h-1z\""));
  EXPECT_THAT(svg, HasSubstr("fill=\"#c4511c\" d=\"M2 0h1v1h-1z\""));
}

}  // namespace
}  // namespace baton
