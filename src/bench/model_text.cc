#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/number_text.h"
#include "bench/machine_text.h"
#include "bench/measure_text.h"
#include "bench/model_suite.h"
#include "bench/plot.h"
#include "bench/text_table.h"
#include "text/json_text.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

std::string_view PhaseWord(BenchPhase phase) {
  return phase == BenchPhase::kPrefill ? "prefill" : "decode";
}

std::string_view PrecisionWord(Precision precision) {
  return precision == Precision::kFast ? "fast" : "exact";
}

// Three digits that count, as many more as the number has.
std::string RateText(double rate) {
  if (rate >= 100) return fmt::format("{:.0f}", rate);
  return fmt::format("{:.{}f}", rate, rate >= 10 ? 1 : 2);
}

std::string TimeText(double seconds) {
  return seconds >= 1 ? fmt::format("{:.2f} s", seconds) : fmt::format("{:.2f} ms", seconds * 1e3);
}

std::string MiB(uint64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20));
}

std::string ModelName(const ModelReport& report) {
  const std::string file = report.path.substr(report.path.find_last_of('/') + 1);
  return report.name.empty() ? file : report.name;
}

}  // namespace

std::string ModelAsText(const ModelReport& report, size_t columns) {
  std::string text = MachineAsText(report.machine, columns);
  const auto line = [&text, columns](std::string_view label, const std::string& value) {
    text += ReportLine(label, value, columns);
  };
  line("model", fmt::format("{} ({})", ModelName(report), report.architecture));
  line("weights", report.weight_types);
  line("computed",
       fmt::format("{}, precision {}, chunks of {}, loaded in {:.2f} s{}", IsaName(report.isa),
                   PrecisionWord(report.precision), report.chunk_tokens, report.load_seconds,
                   report.is_packed ? ", packed" : ""));
  line("memory",
       fmt::format("{} weights, {} {} cache, {} workspace; {} resident at most",
                   MiB(report.weight_bytes), MiB(report.kv_bytes), KvTypeName(report.kv_type),
                   MiB(report.workspace_bytes), MiB(report.peak_resident_bytes)));
  text += "\n";
  TextTable table({"phase", ">threads", ">prompt", ">depth", ">sequences", ">tokens/s", ">time",
                   ">limit", ">share", "bound by", ">spread"},
                  /*num_keys=*/5);
  for (const ModelRow& row : report.rows) {
    const bool is_prefill = row.phase == BenchPhase::kPrefill;
    table.AddRow({std::string(PhaseWord(row.phase)), std::to_string(row.num_threads),
                  is_prefill ? std::to_string(row.prompt_tokens) : "",
                  is_prefill ? "" : std::to_string(row.depth), std::to_string(row.num_sequences),
                  RateText(row.tokens_per_second), TimeText(row.seconds.median),
                  RateText(row.limit_tokens_per_second), fmt::format("{:.2f}", row.share),
                  row.bound_by, fmt::format("{:.0f}%", 100 * row.seconds.spread)});
  }
  text += table.ToText(columns);
  constexpr std::string_view kLegend =
      "limit: tokens/s if all arithmetic ran at the machine's peaks, or all bytes at the speed of "
      "reading the same memory, whichever binds; measured in turn with each row.";
  return text + "\n" + ReportLegend(kLegend, columns) + ReportNotes(report.notes, columns);
}

std::string ModelAsJson(const ModelReport& report) {
  Json rows = Json::array();
  for (const ModelRow& row : report.rows) {
    rows.push_back({{"phase", PhaseWord(row.phase)},
                    {"threads", row.num_threads},
                    {"prompt_tokens", row.prompt_tokens},
                    {"depth", row.depth},
                    {"sequences", row.num_sequences},
                    {"tokens_per_second", row.tokens_per_second},
                    {"seconds", SummaryAsJson(row.seconds)},
                    {"limit_tokens_per_second", row.limit_tokens_per_second},
                    {"share", row.share},
                    {"bound_by", row.bound_by}});
  }
  const Json json = {{"machine", MachineAsJson(report.machine)},
                     {"model",
                      {{"path", report.path},
                       {"name", report.name},
                       {"architecture", report.architecture},
                       {"weight_types", report.weight_types}}},
                     {"isa", IsaName(report.isa)},
                     {"precision", PrecisionWord(report.precision)},
                     {"kv_type", KvTypeName(report.kv_type)},
                     {"chunk_tokens", report.chunk_tokens},
                     {"packed", report.is_packed},
                     {"load_seconds", report.load_seconds},
                     {"memory",
                      {{"weight_bytes", report.weight_bytes},
                       {"kv_bytes", report.kv_bytes},
                       {"workspace_bytes", report.workspace_bytes},
                       {"peak_resident_bytes", report.peak_resident_bytes}}},
                     {"rows", rows},
                     {"notes", report.notes}};
  return JsonText(json);
}

std::string ModelAsCsv(const ModelReport& report) {
  std::string text =
      "phase,threads,prompt_tokens,depth,sequences,tokens_per_second,median_seconds,min_seconds,"
      "max_seconds,spread,count,limit_tokens_per_second,share,bound_by\n";
  for (const ModelRow& row : report.rows) {
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", PhaseWord(row.phase),
                        row.num_threads, row.prompt_tokens, row.depth, row.num_sequences,
                        row.tokens_per_second, row.seconds.median, row.seconds.min, row.seconds.max,
                        row.seconds.spread, row.seconds.count, row.limit_tokens_per_second,
                        row.share, row.bound_by);
  }
  return text;
}

std::string ModelAsSvg(const ModelReport& report) {
  std::set<int> threads;
  for (const ModelRow& row : report.rows) threads.insert(row.num_threads);
  int64_t batch_depth = 0;
  for (const ModelRow& row : report.rows) {
    if (row.num_sequences > 1) batch_depth = row.depth;
  }
  Plot plot = {.title = ModelName(report),
               .subtitle = fmt::format("{}, {}, precision {}, {} cache", report.weight_types,
                                       report.machine.cpu_name, PrecisionWord(report.precision),
                                       KvTypeName(report.kv_type)),
               .panels = {{.title = "Prefill", .x_label = "prompt tokens", .is_log_x = true},
                          {.title = "Decode, one sequence", .x_label = "tokens in the cache"},
                          {.title = fmt::format("Decode at depth {}, all sequences", batch_depth),
                           .x_label = "sequences",
                           .is_log_x = true}}};
  for (PlotPanel& panel : plot.panels) panel.y_label = "tokens/s";
  for (const int n : threads) {
    PlotSeries kinds[3];
    for (PlotSeries& series : kinds) series.label = CountOf(n, "thread");
    for (const ModelRow& row : report.rows) {
      if (row.num_threads != n) continue;
      const bool is_prefill = row.phase == BenchPhase::kPrefill;
      const auto add = [&row](PlotSeries& series, int64_t x) {
        series.points.push_back({.x = static_cast<double>(x),
                                 .y = row.tokens_per_second,
                                 .limit = row.limit_tokens_per_second});
      };
      if (is_prefill) add(kinds[0], row.prompt_tokens);
      if (!is_prefill && row.num_sequences == 1) add(kinds[1], row.depth);
      if (!is_prefill && row.depth == batch_depth) add(kinds[2], row.num_sequences);
    }
    for (size_t i = 0; i < 3; ++i) {
      if (!kinds[i].points.empty()) plot.panels[i].series.push_back(std::move(kinds[i]));
    }
  }
  std::erase_if(plot.panels, [](const PlotPanel& panel) { return panel.series.empty(); });
  return PlotAsSvg(plot);
}

}  // namespace baton
