#include "evaluate/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/number_text.h"
#include "bench/svg.h"

namespace baton {
namespace {

// Units: pixels.
constexpr double kLeft = 64;          // for the labels of rows
constexpr double kPartTop = 34;       // for the title of a part
constexpr double kColumnLabels = 40;  // below the cells
constexpr double kRight = 20;
constexpr double kPageTop = 70;
constexpr double kMapSize = 620;  // of a map's longer side, at most
constexpr double kLeastWithNumber = 24;

struct Colour {
  double red;
  double green;
  double blue;
};

// From pale to deep, at equal steps between low and high.
constexpr std::array<Colour, 3> kScale = {{{234, 241, 249}, {84, 142, 204}, {13, 51, 96}}};

std::string ColourText(double share) {
  const double place = std::clamp(share, 0.0, 1.0) * static_cast<double>(kScale.size() - 1);
  const size_t below = std::min(static_cast<size_t>(place), kScale.size() - 2);
  const double part = place - static_cast<double>(below);
  const Colour& a = kScale[below];
  const Colour& b = kScale[below + 1];
  const auto mix = [&](double x, double y) {
    return static_cast<int>(std::lround(x + part * (y - x)));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(a.red, b.red), mix(a.green, b.green),
                     mix(a.blue, b.blue));
}

std::string Cell(const HeatMap& map, double x, double y, double value) {
  const double share = (value - map.low) / (map.high - map.low);
  std::string svg = fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y,
      map.cell_width - 1, map.cell_height - 1, ColourText(share));
  if (map.cell_width < kLeastWithNumber) return svg;
  std::string number = fmt::format("{:.{}f}", value, map.decimals);
  // ".43": there is no room for more.
  if (number.starts_with("0.") && map.cell_width < 36) number.erase(0, 1);
  return svg + fmt::format(
                   "<text class=\"cell\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" "
                   "style=\"fill: {}\">{}</text>\n",
                   x + (map.cell_width - 1) / 2, y + map.cell_height / 2 + 3.5,
                   share > 0.55 ? "#ffffff" : "#16191c", number);
}

// Every nth label, so that they do not touch.
std::string ColumnLabels(const HeatMap& map, double y) {
  size_t longest = 1;
  for (const std::string& label : map.columns) longest = std::max(longest, label.size());
  const double room = 7.5 * static_cast<double>(longest) + 4;
  const size_t every = static_cast<size_t>(std::max(1.0, std::ceil(room / map.cell_width)));
  std::string svg;
  for (size_t i = 0; i < map.columns.size(); i += every) {
    svg +=
        SvgText({kLeft + (static_cast<double>(i) + 0.5) * map.cell_width, y + 15, "tick", "middle"},
                map.columns[i]);
  }
  const double middle = kLeft + static_cast<double>(map.columns.size()) * map.cell_width / 2;
  return svg + SvgText({middle, y + 33, "label", "middle"}, map.x_label);
}

int64_t RoundUp(int64_t tokens, int64_t block_tokens) {
  return (tokens + block_tokens - 1) / block_tokens;
}

// Blocks that the tile keeps whatever their energies.
bool IsAlwaysKept(const KeptTile& tile, const SparsePolicy& policy, int64_t block) {
  const int64_t sink = RoundUp(policy.sink_tokens, policy.block_tokens);
  const int64_t window = RoundUp(policy.window_tokens, policy.block_tokens);
  return tile.is_dense || block < sink || block >= tile.blocks.first - window + 1 ||
         block < tile.blocks.edge;
}

// What happened to a block. The order of the map's paths.
enum BlockFate { kDropped, kAlways, kChosen };

// Runs of blocks of one fate, as rectangles of a path in units of blocks and tiles.
std::array<std::string, 3> FatePaths(const KeptMap& map, const SparsePolicy& policy) {
  std::array<std::string, 3> paths;
  for (size_t row = 0; row < map.tiles.size(); ++row) {
    const KeptTile& tile = map.tiles[row];
    const auto fate = [&](int64_t block) {
      if (!std::binary_search(tile.kept.begin(), tile.kept.end(), block)) return kDropped;
      return IsAlwaysKept(tile, policy, block) ? kAlways : kChosen;
    };
    for (int64_t begin = tile.blocks.low; begin <= tile.blocks.last;) {
      const BlockFate of_run = fate(begin);
      int64_t end = begin + 1;
      while (end <= tile.blocks.last && fate(end) == of_run) ++end;
      paths[of_run] += fmt::format("M{} {}h{}v1h-{}z", begin, row, end - begin, end - begin);
      begin = end;
    }
  }
  return paths;
}

std::string KeptLegend(double y) {
  struct Entry {
    const char* colour;
    const char* text;
  };
  constexpr std::array<Entry, 3> kEntries = {
      {{"#c4511c", "chosen by energy"}, {"#2a6fbb", "always kept"}, {"#c9d3dc", "dropped"}}};
  std::string svg;
  double x = kLeft;
  for (const Entry& entry : kEntries) {
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"12\" height=\"12\" fill=\"{}\"/>\n",
                       x, y - 10, entry.colour);
    svg += SvgText({x + 18, y, "label", "start"}, entry.text);
    x += 150;
  }
  return svg;
}

}  // namespace

SvgPart HeatMapPart(const HeatMap& map) {
  std::string svg = SvgText({kLeft, 16, "panel", "start"}, map.title);
  double y = kPartTop;
  for (size_t row = 0; row < map.rows.size(); ++row, y += map.cell_height) {
    svg += SvgText({kLeft - 8, y + map.cell_height / 2 + 4, "tick", "end"}, map.rows[row]);
    for (size_t column = 0; column < map.columns.size(); ++column) {
      const double value = map.values[row][column];
      if (std::isnan(value)) continue;
      svg += Cell(map, kLeft + static_cast<double>(column) * map.cell_width, y, value);
    }
  }
  svg += SvgText({kLeft - 8, kPartTop - 8, "label", "end"}, map.y_label);
  svg += ColumnLabels(map, y);
  return {.svg = std::move(svg),
          // Room for the title, too.
          .width = kLeft +
                   std::max(static_cast<double>(map.columns.size()) * map.cell_width,
                            8.0 * static_cast<double>(map.title.size())) +
                   kRight,
          .height = y + kColumnLabels + 10};
}

SvgPart KeptMapPart(const KeptMap& map, const SparsePolicy& policy) {
  int64_t num_blocks = 1;
  for (const KeptTile& tile : map.tiles) num_blocks = std::max(num_blocks, tile.blocks.last + 1);
  const double tiles = static_cast<double>(std::max<size_t>(1, map.tiles.size()));
  const double width = kMapSize;
  const double height = std::min(kMapSize, width * tiles / static_cast<double>(num_blocks));
  const int64_t last_position = map.tiles.empty() ? 0 : map.tiles.back().last_position;
  std::string svg = SvgText(
      {kLeft, 16, "panel", "start"},
      fmt::format("Layer {}, KV head {}: the blocks that each tile reads", map.layer, map.kv_head));
  svg += KeptLegend(36);
  const double top = kPartTop + 16;
  svg += fmt::format(
      "<g transform=\"translate({:.1f} {:.1f}) scale({:.5f} {:.5f})\" "
      "shape-rendering=\"crispEdges\">\n",
      kLeft, top, width / static_cast<double>(num_blocks), height / tiles);
  const std::array<std::string, 3> paths = FatePaths(map, policy);
  constexpr std::array<const char*, 3> kColours = {"#c9d3dc", "#2a6fbb", "#c4511c"};
  for (size_t i = 0; i < paths.size(); ++i) {
    svg += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", kColours[i], paths[i]);
  }
  svg += "</g>\n";
  for (int i = 0; i <= 4; ++i) {
    const std::string position = CountText((last_position + 1) * i / 4);
    svg += SvgText({kLeft + width * i / 4, top + height + 16, "tick", "middle"}, position);
    svg += SvgText({kLeft - 8, top + height * i / 4 + 4, "tick", "end"}, position);
  }
  svg += SvgText({kLeft + width / 2, top + height + 36, "label", "middle"},
                 "position of the keys (queries downwards)");
  return {.svg = std::move(svg), .width = kLeft + width + 40, .height = top + height + 50};
}

std::string PageAsSvg(const SvgPage& page) {
  double width = 0;
  double height = kPageTop;
  for (const SvgPart& part : page.parts) {
    width = std::max(width, part.width);
    height += part.height;
  }
  // Room for the words on top, too.
  width = std::max({width, kLeft + 9.5 * static_cast<double>(page.title.size()),
                    kLeft + 6.6 * static_cast<double>(page.subtitle.size())});
  std::string svg = SvgHead({.width = width, .height = height, .title = page.title});
  svg += SvgText({kLeft, 30, "title", "start"}, page.title);
  svg += SvgText({kLeft, 50, "label", "start"}, page.subtitle);
  double y = kPageTop;
  for (const SvgPart& part : page.parts) {
    svg += fmt::format("<g transform=\"translate(0 {:.1f})\">\n{}</g>\n", y, part.svg);
    y += part.height;
  }
  return svg + "</svg>\n";
}

}  // namespace baton
