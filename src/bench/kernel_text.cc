#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/kernel_row.h"
#include "bench/machine_text.h"
#include "bench/measure_text.h"
#include "bench/text_table.h"
#include "text/json_text.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// "512x1536x576": the extents in their order.
std::string ShapeText(const KernelRow& row) {
  std::vector<int64_t> extents;
  for (const auto& [name, extent] : row.shape) extents.push_back(extent);
  return fmt::format("{}", fmt::join(extents, "x"));
}

// "rows x outputs x inputs".
std::string ShapeNames(const KernelRow& row) {
  std::vector<std::string> names;
  for (const auto& [name, extent] : row.shape) names.push_back(name);
  return fmt::format("{}", fmt::join(names, " x "));
}

std::string TimeText(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string ShareText(const KernelRow& row, const std::string& limit) {
  for (const LimitShare& share : row.limits) {
    if (share.limit == limit) return fmt::format("{:.2f}", share.share);
  }
  return "";
}

// "time 1.25", "speed 1.93": the first word of what is compared.
std::string ComparisonText(const KernelRow& row) {
  if (!row.comparison) return "";
  return fmt::format("{} {:.2f}", row.comparison->of.substr(0, row.comparison->of.find(' ')),
                     row.comparison->ratio);
}

// Rows that belong under one heading.
std::string SectionOf(const KernelRow& row) {
  const bool is_linear = row.operation == "linear";
  const bool is_attention = row.operation.ends_with("-attention");
  const std::string what = is_linear || is_attention ? row.operation : "row operations";
  return fmt::format("{}, {}: {}", what, IsaName(row.isa), ShapeNames(row));
}

bool IsSingleRow(const KernelRow& row) {
  return row.operation != "linear" && !row.operation.ends_with("-attention");
}

std::string SectionTable(const std::vector<const KernelRow*>& rows, size_t columns) {
  TextTable table({"what", "", "shape", ">thr", ">time", ">rate", "unit", ">int8", ">fma", ">read",
                   ">spread", "against 1"},
                  /*num_keys=*/4);
  for (const KernelRow* row : rows) {
    const std::string what = IsSingleRow(*row) ? row->operation : row->type;
    table.AddRow({what, row->precision, ShapeText(*row), std::to_string(row->num_threads),
                  TimeText(row->seconds.median), fmt::format("{:.1f}", row->rate), row->unit,
                  ShareText(*row, "int8"), ShareText(*row, "fma"), ShareText(*row, "read"),
                  fmt::format("{:.0f}%", 100 * row->seconds.spread),
                  row->is_right ? ComparisonText(*row) : "WRONG BITS"});
  }
  return table.ToText(columns);
}

// Stages of sparse attention, for those rows that have them.
std::string StagesTable(const std::vector<const KernelRow*>& rows, size_t columns) {
  std::vector<std::string> heading = {"what", "shape", ">kept blocks", ">overhead"};
  for (const KernelRow* row : rows) {
    if (!row->sparse_cost) continue;
    for (const auto& [stage, part] : row->sparse_cost->stages) heading.push_back(">" + stage);
    break;
  }
  if (heading.size() == 4) return "";
  TextTable table(heading, /*num_keys=*/2);
  for (const KernelRow* row : rows) {
    if (!row->sparse_cost) continue;
    std::vector<std::string> cells = {row->type, ShapeText(*row),
                                      fmt::format("{:.2f}", row->sparse_cost->kept_rate),
                                      fmt::format("{:.2f}", row->sparse_cost->overhead)};
    for (const auto& [stage, part] : row->sparse_cost->stages) {
      cells.push_back(fmt::format("{:.2f}", part));
    }
    table.AddRow(cells);
  }
  constexpr std::string_view kLegend =
      "kept blocks: share of dense attention's rate; overhead: all else, of estimates x (2 - "
      "density) / 128 of its time, and the stages that it consists of";
  return "\n" + ReportLegend(kLegend, columns) + table.ToText(columns);
}

Json SparseCostJson(const SparseCost& cost) {
  Json stages = Json::object();
  for (const auto& [stage, part] : cost.stages) stages[stage] = part;
  return {{"kept_rate", cost.kept_rate}, {"overhead", cost.overhead}, {"stages", stages}};
}

Json RowJson(const KernelRow& row) {
  Json shape = Json::object();
  for (const auto& [name, extent] : row.shape) shape[name] = extent;
  Json limits = Json::object();
  for (const LimitShare& share : row.limits) {
    limits[share.limit] = {{"per_second", share.limit_rate}, {"share", share.share}};
  }
  Json json = {{"operation", row.operation},
               {"type", row.type.empty() ? Json() : Json(row.type)},
               {"precision", row.precision.empty() ? Json() : Json(row.precision)},
               {"isa", IsaName(row.isa)},
               {"threads", row.num_threads},
               {"shape", shape},
               {"seconds", SummaryAsJson(row.seconds)},
               {"rate", row.rate},
               {"unit", row.unit},
               {"limits", limits},
               {"verified", row.is_right}};
  if (row.comparison) {
    json["compared"] = {{"of", row.comparison->of}, {"ratio", row.comparison->ratio}};
  }
  if (row.sparse_cost) json["sparse"] = SparseCostJson(*row.sparse_cost);
  return json;
}

}  // namespace

std::string KernelsAsText(const KernelReport& report, size_t columns) {
  std::string text = MachineAsText(report.machine, columns);
  for (size_t begin = 0; begin < report.rows.size();) {
    const std::string section = SectionOf(report.rows[begin]);
    std::vector<const KernelRow*> rows;
    size_t end = begin;
    for (; end < report.rows.size() && SectionOf(report.rows[end]) == section; ++end) {
      rows.push_back(&report.rows[end]);
    }
    text +=
        fmt::format("\n{}\n{}{}", section, SectionTable(rows, columns), StagesTable(rows, columns));
    begin = end;
  }
  constexpr std::string_view kLegend =
      "int8, fma, read: share of what the machine can do at most (8-bit multiply-adds, f32 fma, "
      "reading the same memory), timed in turn with each row. spread: between quartiles. against "
      "1: time as a multiple of that of 1 row, speed as a multiple of that of 1 thread.";
  return text + "\n" + ReportLegend(kLegend, columns) + ReportNotes(report.notes, columns);
}

std::string KernelsAsJson(const KernelReport& report) {
  Json rows = Json::array();
  for (const KernelRow& row : report.rows) rows.push_back(RowJson(row));
  const Json json = {{"machine", MachineAsJson(report.machine)},
                     {"quick", report.is_quick},
                     {"rows", rows},
                     {"notes", report.notes}};
  return JsonText(json);
}

std::string KernelsAsCsv(const KernelReport& report) {
  std::string text =
      "operation,type,precision,isa,threads,shape,extents,median_seconds,min_seconds,max_seconds,"
      "spread,count,rate,unit,share_int8,share_fma,share_read,compared_with,ratio,verified,"
      "kept_rate,overhead\n";
  const auto share_of = [](const KernelRow& row, const std::string& limit) {
    for (const LimitShare& share : row.limits) {
      if (share.limit == limit) return fmt::format("{}", share.share);
    }
    return std::string();
  };
  for (const KernelRow& row : report.rows) {
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", row.operation,
        row.type, row.precision, IsaName(row.isa), row.num_threads, ShapeNames(row), ShapeText(row),
        row.seconds.median, row.seconds.min, row.seconds.max, row.seconds.spread, row.seconds.count,
        row.rate, row.unit, share_of(row, "int8"), share_of(row, "fma"), share_of(row, "read"),
        row.comparison ? row.comparison->of : "",
        row.comparison ? fmt::format("{}", row.comparison->ratio) : "", row.is_right,
        row.sparse_cost ? fmt::format("{}", row.sparse_cost->kept_rate) : "",
        row.sparse_cost ? fmt::format("{}", row.sparse_cost->overhead) : "");
  }
  return text;
}

}  // namespace baton
