#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/number_text.h"
#include "bench/machine_text.h"
#include "bench/plot.h"
#include "bench/serve_suite.h"
#include "bench/text_table.h"
#include "text/json_text.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

std::string LoadWord(const ServeRow& row) {
  if (row.rate > 0) return fmt::format("{:g} req/s", row.rate);
  return CountOf(row.clients, "client");
}

std::string Ms(double seconds) {
  return seconds >= 10 ? TenthsText(seconds) + " s" : TenthsText(seconds * 1e3) + " ms";
}

// Of a whole load.
std::string Seconds(double seconds) {
  return seconds >= 1000 ? TenthsText(seconds) : fmt::format("{:.2f}", seconds);
}

std::string Rounded(double rate) {
  return CountText(std::llround(rate));
}

std::string Percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

// One of the percentiles; "-" if there are none.
std::string Ms(const std::optional<Percentiles>& percentiles, double Percentiles::*which) {
  return percentiles ? Ms((*percentiles).*which) : "-";
}

Json AsJson(const std::optional<Percentiles>& percentiles) {
  if (!percentiles) return nullptr;
  return {{"p50", percentiles->p50},
          {"p90", percentiles->p90},
          {"p99", percentiles->p99},
          {"max", percentiles->max}};
}

// Adds the median and p99, in ms.
void AddPoints(double x, const std::optional<Percentiles>& percentiles, PlotSeries (&series)[2]) {
  if (!percentiles) return;
  series[0].points.push_back({.x = x, .y = percentiles->p50 * 1e3});
  series[1].points.push_back({.x = x, .y = percentiles->p99 * 1e3});
}

}  // namespace

std::string ServeAsText(const ServeReport& report, size_t columns) {
  std::string text = MachineAsText(report.machine, columns);
  const auto line = [&text, columns](std::string_view label, const std::string& value) {
    text += ReportLine(label, value, columns);
  };
  line("model", fmt::format("{}, {}", report.model_name, CountOf(report.num_threads, "thread")));
  line("requests",
       fmt::format("{}, {} of them shared; answers of {}", CountOf(report.prompt_tokens, "token"),
                   CountText(report.shared_tokens), CountText(report.output_tokens)));
  line("good", fmt::format("first token within {}, no gap above {}", Ms(report.limits.ttft),
                           Ms(report.limits.gap)));
  text += "\n";
  TextTable table({"load", ">requests", ">ttft p50", ">p99", ">gap p50", ">p99", ">longest",
                   ">tokens/s", ">prompt/s", ">good"});
  for (const ServeRow& row : report.rows) {
    table.AddRow({LoadWord(row), CountText(row.num_requests), Ms(row.ttft, &Percentiles::p50),
                  Ms(row.ttft, &Percentiles::p99), Ms(row.gaps, &Percentiles::p50),
                  Ms(row.gaps, &Percentiles::p99), Ms(row.gaps, &Percentiles::max),
                  Rounded(row.output_rate), Rounded(row.prompt_rate), Percent(row.good_share)});
  }
  text += table.ToText(columns);
  TextTable more({"load", ">refused", ">seconds", ">in a step", ">cached", ">preempted",
                  ">sampling", ">engine"});
  for (const ServeRow& row : report.rows) {
    more.AddRow({LoadWord(row), CountText(row.num_refused), Seconds(row.seconds),
                 fmt::format("{:.1f}", row.mean_running), Percent(row.cached_share),
                 CountText(row.preemptions), Percent(row.sampling_share),
                 Percent(row.other_share)});
  }
  text += "\n" + more.ToText(columns);
  constexpr std::string_view kLegend =
      "refused: of the requests, by the full queue; in a step: requests, on average; sampling, "
      "engine: their share of the steps' time.";
  text += "\n" + ReportLegend(kLegend, columns);
  if (report.long_rows.empty()) return text;
  TextTable longs({">streams", ">long prompt", ">ttft alone", ">ttft", ">ratio", ">gap before",
                   ">after", ">longest gap", ">ratio"},
                  /*num_keys=*/2);
  for (const LongPromptRow& row : report.long_rows) {
    longs.AddRow({CountText(row.clients), CountText(row.prompt_tokens), Ms(row.alone_ttft),
                  Ms(row.ttft), fmt::format("{:.2f}", row.ttft / row.alone_ttft),
                  Ms(row.gap_before), Ms(row.gap_after), Ms(row.longest_gap),
                  fmt::format("{:.2f}", row.longest_gap_steps)});
  }
  return text + "\n" + longs.ToText(columns);
}

std::string ServeAsJson(const ServeReport& report) {
  Json rows = Json::array();
  for (const ServeRow& row : report.rows) {
    rows.push_back({{"clients", row.clients},
                    {"requests_per_second", row.rate},
                    {"requests", row.num_requests},
                    {"refused", row.num_refused},
                    {"seconds", row.seconds},
                    {"ttft_seconds", AsJson(row.ttft)},
                    {"gap_seconds", AsJson(row.gaps)},
                    {"output_tokens_per_second", row.output_rate},
                    {"prompt_tokens_per_second", row.prompt_rate},
                    {"good_share", row.good_share},
                    {"cached_share", row.cached_share},
                    {"preemptions", row.preemptions},
                    {"mean_running", row.mean_running},
                    {"sampling_share", row.sampling_share},
                    {"engine_share", row.other_share}});
  }
  Json longs = Json::array();
  for (const LongPromptRow& row : report.long_rows) {
    longs.push_back({{"streams", row.clients},
                     {"prompt_tokens", row.prompt_tokens},
                     {"alone_ttft_seconds", row.alone_ttft},
                     {"ttft_seconds", row.ttft},
                     {"gap_before_seconds", row.gap_before},
                     {"gap_after_seconds", row.gap_after},
                     {"longest_gap_steps", row.longest_gap_steps},
                     {"longest_gap_seconds", row.longest_gap}});
  }
  const Json json = {{"machine", MachineAsJson(report.machine)},
                     {"model", {{"path", report.path}, {"name", report.model_name}}},
                     {"threads", report.num_threads},
                     {"max_running", report.config.max_running},
                     {"kv_tokens", report.config.kv_tokens},
                     {"prompt_tokens", report.prompt_tokens},
                     {"shared_tokens", report.shared_tokens},
                     {"output_tokens", report.output_tokens},
                     {"ttft_limit_seconds", report.limits.ttft},
                     {"gap_limit_seconds", report.limits.gap},
                     {"rows", rows},
                     {"long_prompts", longs}};
  return JsonText(json);
}

std::string ServeAsSvg(const ServeReport& report) {
  Plot plot = {.title = report.model_name,
               .subtitle = fmt::format("prompts of {}, answers of {}; {}",
                                       CountOf(report.prompt_tokens, "token"),
                                       CountText(report.output_tokens), report.machine.cpu_name),
               .panels = {}};
  for (const bool is_open : {false, true}) {
    const std::string load = is_open ? "requests per second" : "clients";
    PlotPanel ttft = {.title = "First token", .x_label = load, .y_label = "ms", .series = {}};
    PlotPanel gap = {.title = "Between tokens", .x_label = load, .y_label = "ms", .series = {}};
    PlotPanel rate = {.title = "All answers", .x_label = load, .y_label = "tokens/s", .series = {}};
    PlotSeries ttft_series[2] = {{.label = "median", .points = {}}, {.label = "p99", .points = {}}};
    PlotSeries gap_series[2] = {ttft_series[0], ttft_series[1]};
    PlotSeries rate_series = {.label = "median", .points = {}};
    for (const ServeRow& row : report.rows) {
      if ((row.rate > 0) != is_open) continue;
      const double x = is_open ? row.rate : static_cast<double>(row.clients);
      AddPoints(x, row.ttft, ttft_series);
      AddPoints(x, row.gaps, gap_series);
      rate_series.points.push_back({.x = x, .y = row.output_rate});
    }
    if (rate_series.points.empty()) continue;
    ttft.series = {ttft_series[0], ttft_series[1]};
    gap.series = {gap_series[0], gap_series[1]};
    rate.series = {rate_series};
    for (PlotPanel* panel : {&ttft, &gap, &rate}) plot.panels.push_back(std::move(*panel));
  }
  return PlotAsSvg(plot);
}

}  // namespace baton
