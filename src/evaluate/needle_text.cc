#include "evaluate/needle_text.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/number_text.h"
#include "base/wrapped_text.h"
#include "bench/text_table.h"
#include "evaluate/heat_map.h"
#include "evaluate/policy_label.h"
#include "evaluate/policy_legend.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

NeedleCell SumOf(const NeedleGrid& grid) {
  NeedleCell sum;
  for (const std::vector<NeedleCell>& row : grid) {
    for (const NeedleCell& cell : row) {
      sum.log_probability += cell.log_probability * cell.trials;
      sum.trials += cell.trials;
      sum.found += cell.found;
    }
  }
  if (sum.trials > 0) sum.log_probability /= sum.trials;
  return sum;
}

// "2/2", "-0.031".
void AddCells(const NeedleCell& cell, std::vector<std::string>& cells) {
  cells.push_back(fmt::format("{}/{}", cell.found, cell.trials));
  cells.push_back(fmt::format("{:.3f}", cell.log_probability));
}

Json GridJson(const NeedleReport& report, const NeedleGrid& grid) {
  Json cells = Json::array();
  for (size_t l = 0; l < report.lengths.size(); ++l) {
    for (size_t d = 0; d < report.depths.size(); ++d) {
      const NeedleCell& cell = grid[l][d];
      cells.push_back(
          {{"length", report.lengths[l]},
           {"depth", report.depths[d]},
           {"trials", cell.trials},
           {"found", cell.found},
           {"log_probability",
            std::isfinite(cell.log_probability) ? Json(cell.log_probability) : Json(nullptr)}});
    }
  }
  return cells;
}

SvgPart GridPart(const NeedleReport& report, const NeedleGrid& grid, const std::string& title) {
  HeatMap map = {.title = title,
                 .x_label = "tokens of the prompt",
                 .y_label = "depth",
                 .cell_width = 64,
                 .cell_height = 26};
  for (const int64_t length : report.lengths) map.columns.push_back(CountText(length));
  for (size_t d = 0; d < report.depths.size(); ++d) {
    map.rows.push_back(fmt::format("{} %", report.depths[d]));
    std::vector<double>& row = map.values.emplace_back();
    for (const std::vector<NeedleCell>& of_length : grid) row.push_back(of_length[d].share());
  }
  return HeatMapPart(map);
}

}  // namespace

std::string NeedleAsText(const NeedleReport& report, size_t columns) {
  std::vector<std::string> heading = {">tokens", ">depth", ">dense", ">ln p"};
  std::vector<std::string> names;
  for (size_t p = 0; p < report.policies.size(); ++p) {
    heading.push_back(">" + PolicyLetter(p));
    heading.push_back(">ln p");
    names.push_back(PolicyText(report.policies[p]));
  }
  TextTable table(heading, 2);
  for (size_t l = 0; l < report.lengths.size(); ++l) {
    for (size_t d = 0; d < report.depths.size(); ++d) {
      std::vector<std::string> cells = {CountText(report.lengths[l]),
                                        fmt::format("{} %", report.depths[d])};
      AddCells(report.result.dense[l][d], cells);
      for (const NeedleGrid& grid : report.result.policies) AddCells(grid[l][d], cells);
      table.AddRow(std::move(cells));
    }
  }
  std::vector<std::string> cells = {"all", ""};
  AddCells(SumOf(report.result.dense), cells);
  for (const NeedleGrid& grid : report.result.policies) AddCells(SumOf(grid), cells);
  table.AddRow(std::move(cells));
  const std::string title = fmt::format(
      "a code in {}, asked for at the end: found of trials, and the mean "
      "log-probability of the answer",
      report.text);
  return fmt::format("{}\n{}\n{}", WrapWords(title, {.columns = columns, .indent = 0}),
                     LegendText(names, columns), table.ToText(columns));
}

std::string NeedleAsJson(const NeedleReport& report) {
  Json policies = Json::array();
  for (size_t p = 0; p < report.policies.size(); ++p) {
    policies.push_back({{"policy", PolicyText(report.policies[p])},
                        {"label", PolicyLabel(report.policies[p])},
                        {"cells", GridJson(report, report.result.policies[p])}});
  }
  const Json json = {{"model", report.model},
                     {"text", report.text},
                     {"dense", {{"cells", GridJson(report, report.result.dense)}}},
                     {"policies", std::move(policies)}};
  // Names of files may hold any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string NeedleAsSvg(const NeedleReport& report) {
  const int trials = report.result.dense.empty() ? 0 : report.result.dense.front().front().trials;
  SvgPage page = {.title = "A code in a long text, asked for at its end",
                  .subtitle = fmt::format("{}; share found of {} trial{} each, greedily",
                                          report.text, trials, trials == 1 ? "" : "s"),
                  .parts = {GridPart(report, report.result.dense, "dense")}};
  for (size_t p = 0; p < report.policies.size(); ++p) {
    page.parts.push_back(
        GridPart(report, report.result.policies[p], PolicyLabel(report.policies[p])));
  }
  return PageAsSvg(page);
}

}  // namespace baton
