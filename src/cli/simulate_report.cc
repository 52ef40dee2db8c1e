#include "cli/simulate_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/number_text.h"
#include "base/wrapped_text.h"
#include "bench/plot.h"
#include "bench/text_table.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kValueColumn = 13;

std::string TimeText(double seconds) {
  if (seconds < 0.9995) return fmt::format("{:.1f} ms", seconds * 1000);
  if (seconds < 999.5) return fmt::format("{:.2f} s", seconds);
  return DurationText(seconds);
}

double Share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

std::vector<std::string> Row(const char* name, const TimeHistogram& times) {
  return {name,
          CountText(times.count()),
          TimeText(times.Quantile(0.5)),
          TimeText(times.Quantile(0.9)),
          TimeText(times.Quantile(0.99)),
          TimeText(times.max())};
}

Json AsJson(const TimeHistogram& times) {
  return {{"count", times.count()},     {"mean", times.mean()},        {"p50", times.Quantile(0.5)},
          {"p90", times.Quantile(0.9)}, {"p99", times.Quantile(0.99)}, {"max", times.max()}};
}

}  // namespace

std::string SimulationAsText(const SimulationResult& result, size_t columns) {
  TextTable table({"time", ">count", ">p50", ">p90", ">p99", ">max"});
  table.AddRow(Row("in the queue", result.queue));
  table.AddRow(Row("to first token", result.ttft));
  table.AddRow(Row("between tokens", result.gap));
  table.AddRow(Row("arrival to end", result.total));
  std::string text = table.ToText(columns) + "\n";
  const ScheduleCounts& counts = result.counts;
  const auto line = [&text, columns](const char* name, const std::string& value) {
    text += LabelledLine(name, value, {.columns = columns, .indent = kValueColumn});
  };
  line("requests", fmt::format("{} arrived, {} completed, {} cancelled", CountText(result.arrived),
                               CountText(result.completed), CountText(result.cancelled)));
  line("refused", fmt::format("{} by a full queue, {} too long", CountText(result.refused_queue),
                              CountText(result.refused_context)));
  line("time", fmt::format("{}, busy {:.1f} % of it, {}", DurationText(result.seconds),
                           100 * Share(result.busy_seconds, result.seconds),
                           CountOf(static_cast<int64_t>(counts.steps), "step")));
  line("throughput", fmt::format("{:.1f} prompt tokens/s computed, {:.1f} tokens/s generated",
                                 Share(static_cast<double>(counts.prompt_tokens), result.seconds),
                                 Share(static_cast<double>(result.output_tokens), result.seconds)));
  line("prefix hits",
       fmt::format("{} of {}", CountOf(static_cast<int64_t>(counts.prefix_hit_tokens), "token"),
                   CountOf(static_cast<int64_t>(counts.prefix_queries), "prompt")));
  line("running", fmt::format("{:.1f} in the mean while busy", result.mean_running));
  line("queue", fmt::format("{} at most", CountText(result.longest_queue)));
  line("blocks",
       fmt::format("{:.1f} % owned in the mean, {:.1f} % at most, of {}",
                   100 * Share(result.mean_owned_blocks, static_cast<double>(result.num_blocks)),
                   100 * Share(static_cast<double>(result.most_owned_blocks),
                               static_cast<double>(result.num_blocks)),
                   CountText(result.num_blocks)));
  line("preemptions", CountText(static_cast<int64_t>(counts.preemptions)));
  line("longest step",
       result.longest_gap_steps > 0
           ? fmt::format("{:.2f} decode steps, of those beside prefill", result.longest_gap_steps)
           : "no stream met a prefill");
  return text;
}

std::string SimulationAsJson(const SimulationResult& result, const SimulationOptions& options) {
  const ScheduleCounts& counts = result.counts;
  Json windows = Json::array();
  for (const SimulationWindow& window : result.windows) {
    windows.push_back({{"begin", window.begin},
                       {"ttft_seconds", AsJson(window.ttft)},
                       {"gap_seconds", AsJson(window.gap)},
                       {"longest_queue", window.longest_queue}});
  }
  const StepTimeCoefficients& times = options.times;
  const Json json = {{"requests",
                      {{"arrived", result.arrived},
                       {"completed", result.completed},
                       {"cancelled", result.cancelled},
                       {"refused_queue", result.refused_queue},
                       {"refused_context", result.refused_context}}},
                     {"seconds", result.seconds},
                     {"busy_seconds", result.busy_seconds},
                     {"queue_seconds", AsJson(result.queue)},
                     {"ttft_seconds", AsJson(result.ttft)},
                     {"gap_seconds", AsJson(result.gap)},
                     {"total_seconds", AsJson(result.total)},
                     {"longest_gap_steps", result.longest_gap_steps},
                     {"steps", counts.steps},
                     {"prompt_tokens_computed", counts.prompt_tokens},
                     {"prefix_hit_tokens", counts.prefix_hit_tokens},
                     {"output_tokens", result.output_tokens},
                     {"preemptions", counts.preemptions},
                     {"mean_running", result.mean_running},
                     {"longest_queue", result.longest_queue},
                     {"blocks",
                      {{"total", result.num_blocks},
                       {"mean_owned", result.mean_owned_blocks},
                       {"most_owned", result.most_owned_blocks}}},
                     {"usual_residual", result.usual_residual},
                     {"step_times",
                      {{"per_step", times.per_step},
                       {"per_prefill_token", times.per_prefill_token},
                       {"per_prefill_context", times.per_prefill_context},
                       {"per_decode_row", times.per_decode_row},
                       {"per_decode_context", times.per_decode_context}}},
                     {"windows", windows}};
  return json.dump(2) + "\n";
}

std::string SimulationAsSvg(const SimulationResult& result, const std::string& subtitle) {
  const double end = result.windows.empty() ? 0 : result.windows.back().begin;
  const double unit = end < 600 ? 1 : end < 36000 ? 60 : 3600;
  const std::string x_label = unit == 1 ? "seconds" : unit == 60 ? "minutes" : "hours";
  const auto panel = [&](const char* title, const char* y_label) {
    return PlotPanel{.title = title, .x_label = x_label, .y_label = y_label};
  };
  PlotPanel ttft = panel("Time to first token", "s");
  PlotPanel gap = panel("Between two tokens of a stream", "ms");
  const struct {
    const char* label;
    double share;
  } lines[] = {{"median", 0.5}, {"99 of 100 are below", 0.99}, {"longest", 1.0}};
  for (const auto& line : lines) {
    PlotSeries of_ttft{.label = line.label, .points = {}};
    PlotSeries of_gap{.label = line.label, .points = {}};
    for (const SimulationWindow& window : result.windows) {
      const double x = std::round(10 * window.begin / unit) / 10;
      const auto point = [&](const TimeHistogram& times, double scale) {
        return PlotPoint{.x = x, .y = scale * times.Quantile(line.share)};
      };
      if (window.ttft.count() > 0) of_ttft.points.push_back(point(window.ttft, 1));
      if (window.gap.count() > 0) of_gap.points.push_back(point(window.gap, 1000));
    }
    ttft.series.push_back(std::move(of_ttft));
    gap.series.push_back(std::move(of_gap));
  }
  return PlotAsSvg({.title = "baton simulate",
                    .subtitle = subtitle,
                    .panels = {std::move(ttft), std::move(gap)},
                    .limit_label = ""});
}

}  // namespace baton
