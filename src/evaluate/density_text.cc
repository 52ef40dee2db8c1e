#include "evaluate/density_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/number_text.h"
#include "base/wrapped_text.h"
#include "bench/text_table.h"
#include "evaluate/heat_map.h"
#include "evaluate/policy_label.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

BlockCounts SumOf(const std::vector<BlockCounts>& heads) {
  BlockCounts sum;
  for (const BlockCounts& counts : heads) {
    sum.kept += counts.kept;
    sum.candidates += counts.candidates;
  }
  return sum;
}

Json MapJson(const KeptMap& map) {
  Json tiles = Json::array();
  for (const KeptTile& tile : map.tiles) {
    tiles.push_back({{"first_position", tile.first_position},
                     {"last_position", tile.last_position},
                     {"dense", tile.is_dense},
                     {"blocks", {tile.blocks.low, tile.blocks.last}},
                     {"kept", tile.kept}});
  }
  return {{"layer", map.layer}, {"kv_head", map.kv_head}, {"tiles", std::move(tiles)}};
}

HeatMap MapOf(const DensityReport& report) {
  HeatMap map = {.title = "Share of the past's blocks that is read, by layer and KV head",
                 .x_label = "layer",
                 .y_label = "KV head",
                 .cell_width = 27};
  const auto& counts = report.result.counts;
  for (size_t layer = 0; layer < counts.size(); ++layer) {
    map.columns.push_back(fmt::format("{}", layer));
  }
  const size_t num_heads = counts.empty() ? 0 : counts[0].size();
  for (size_t head = 0; head < num_heads; ++head) {
    map.rows.push_back(fmt::format("{}", head));
    std::vector<double>& row = map.values.emplace_back();
    for (const std::vector<BlockCounts>& layer : counts) row.push_back(DensityOf(layer[head]));
  }
  return map;
}

}  // namespace

std::string DensityAsText(const DensityReport& report, size_t columns) {
  const auto& counts = report.result.counts;
  std::vector<std::string> heading = {">layer", ">all heads"};
  const size_t num_heads = counts.empty() ? 0 : counts[0].size();
  for (size_t head = 0; head < num_heads; ++head) heading.push_back(fmt::format(">{}", head));
  TextTable table(heading);
  BlockCounts all;
  for (size_t layer = 0; layer < counts.size(); ++layer) {
    const BlockCounts sum = SumOf(counts[layer]);
    all.kept += sum.kept;
    all.candidates += sum.candidates;
    std::vector<std::string> cells = {fmt::format("{}", layer),
                                      fmt::format("{:.3f}", DensityOf(sum))};
    for (const BlockCounts& head : counts[layer]) {
      cells.push_back(fmt::format("{:.3f}", DensityOf(head)));
    }
    table.AddRow(std::move(cells));
  }
  const std::string title =
      fmt::format("{} of {}; kept blocks as a share of those in sight, by KV head",
                  CountOf(report.num_tokens, "token"), report.text);
  constexpr size_t kIndent = 8;  // of what stands behind "policy: "
  return fmt::format("{}\npolicy: {}\nall: {:.3f}\n\n{}",
                     WrapWords(title, {.columns = columns, .indent = 0}),
                     WrapWords(PolicyText(report.policy), {.columns = columns, .indent = kIndent}),
                     DensityOf(all), table.ToText(columns));
}

std::string DensityAsJson(const DensityReport& report) {
  Json layers = Json::array();
  for (const std::vector<BlockCounts>& layer : report.result.counts) {
    Json heads = Json::array();
    for (const BlockCounts& head : layer) {
      heads.push_back({{"kept", head.kept}, {"candidates", head.candidates}});
    }
    layers.push_back(std::move(heads));
  }
  Json json = {{"model", report.model},
               {"text", report.text},
               {"tokens", report.num_tokens},
               {"policy", PolicyText(report.policy)},
               {"layers", std::move(layers)}};
  if (report.result.map) json["map"] = MapJson(*report.result.map);
  // Names of files may hold any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string DensityAsSvg(const DensityReport& report) {
  SvgPage page = {.title = "What a sparse prefill reads",
                  .subtitle = fmt::format("{} of {}; {}", CountOf(report.num_tokens, "token"),
                                          report.text, PolicyLabel(report.policy)),
                  .parts = {HeatMapPart(MapOf(report))}};
  if (report.result.map) page.parts.push_back(KeptMapPart(*report.result.map, report.policy));
  return PageAsSvg(page);
}

}  // namespace baton
