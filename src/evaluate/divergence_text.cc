#include "evaluate/divergence_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/number_text.h"
#include "base/wrapped_text.h"
#include "bench/measure.h"
#include "bench/text_table.h"
#include "evaluate/policy_label.h"
#include "evaluate/policy_legend.h"
#include "evaluate/trade_off_plot.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

Json Number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

double MedianOf(const std::vector<double>& seconds) {
  return seconds.empty() ? 0 : Summarize(seconds).median;
}

std::string SecondsText(double seconds) {
  return seconds == 0 ? "" : fmt::format("{:.2f} s", seconds);
}

Json FiguresJson(const DivergenceFigures& figures) {
  return {{"count", figures.count},
          {"mean", Number(figures.mean)},
          {"p95", Number(figures.p95)},
          {"p99", Number(figures.p99)},
          {"max", Number(figures.max)},
          {"top1", figures.top1},
          {"nll_change", Number(figures.nll_change)}};
}

Json PolicyJson(const DivergenceReport& report, const PolicyDivergence& one) {
  Json kl;
  for (size_t s = 0; s < report.sets.size(); ++s) {
    kl[report.sets[s].name] = FiguresJson(one.sets[s]);
  }
  Json layers = Json::array();
  for (const BlockCounts& counts : one.report.layers) layers.push_back(DensityOf(counts));
  const SparseTimes& times = one.report.times;
  return {{"policy", PolicyText(one.policy)},
          {"label", PolicyLabel(one.policy)},
          {"density", one.density},
          {"density_by_layer", std::move(layers)},
          {"kl", std::move(kl)},
          {"seconds", one.seconds},
          {"time_ratio", one.seconds.empty() ? Json(nullptr) : Json(one.time_ratio)},
          {"thread_seconds",
           {{"pack", static_cast<double>(times.pack) * 1e-9},
            {"score", static_cast<double>(times.score) * 1e-9},
            {"select", static_cast<double>(times.select) * 1e-9},
            {"attend", static_cast<double>(times.attend) * 1e-9},
            {"correct", static_cast<double>(times.correct) * 1e-9}}}};
}

// A longer label would leave no room for figures on a usual screen.
constexpr size_t kMaxLabel = 24;

// What stands for each policy in the tables: its label, or a letter where one of them is too long.
struct PolicyNames {
  std::vector<std::string> names;
  std::string legend;  // empty where the labels themselves stand there
};

PolicyNames NamesOf(const DivergenceReport& report, size_t columns) {
  std::vector<std::string> labels;
  size_t longest = 0;
  for (const PolicyDivergence& one : report.result.policies) {
    labels.push_back(PolicyLabel(one.policy));
    longest = std::max(longest, labels.back().size());
  }
  if (longest <= kMaxLabel) return {.names = std::move(labels), .legend = {}};
  std::vector<std::string> letters;
  for (size_t i = 0; i < labels.size(); ++i) letters.push_back(PolicyLetter(i));
  return {.names = std::move(letters), .legend = LegendText(labels, columns) + "\n"};
}

// What a table shows of each policy.
struct Shown {
  const std::vector<std::string>& names;
  bool has_cost = false;     // density and time
  std::vector<size_t> sets;  // losses over these
};

TextTable TableOf(const DivergenceReport& report, const Shown& shown) {
  std::vector<std::string> heading = {"policy"};
  std::vector<std::string> dense = {"dense"};
  if (shown.has_cost) {
    heading.insert(heading.end(), {">kept", ">prefill", ">of dense"});
    dense.insert(dense.end(), {"", SecondsText(MedianOf(report.result.dense_seconds)), ""});
  }
  for (const size_t set : shown.sets) {
    for (const char* const figure : {"KL", "P95", "P99", "max", "top-1"}) {
      heading.push_back(fmt::format(">{} {}", report.sets[set].name, figure));
    }
  }
  TextTable table(heading);
  dense.resize(heading.size());
  if (shown.has_cost) table.AddRow(std::move(dense));
  for (size_t p = 0; p < report.result.policies.size(); ++p) {
    const PolicyDivergence& one = report.result.policies[p];
    std::vector<std::string> cells = {shown.names[p]};
    if (shown.has_cost) {
      cells.push_back(fmt::format("{:.3f}", one.density));
      cells.push_back(SecondsText(MedianOf(one.seconds)));
      cells.push_back(one.seconds.empty() ? "" : fmt::format("{:.3f}", one.time_ratio));
    }
    for (const size_t set : shown.sets) {
      const DivergenceFigures& figures = one.sets[set];
      for (const double x : {figures.mean, figures.p95, figures.p99, figures.max}) {
        cells.push_back(fmt::format("{:.4f}", x));
      }
      cells.push_back(fmt::format("{:.3f}", figures.top1));
    }
    table.AddRow(std::move(cells));
  }
  return table;
}

}  // namespace

std::string DivergenceAsText(const DivergenceReport& report, size_t columns) {
  std::string sets;
  for (const PositionSet& set : report.sets) {
    sets += fmt::format("{}{}: {}", sets.empty() ? "" : ", ", set.name,
                        CountOf(std::ssize(set.positions), "position"));
  }
  const auto wrapped = [columns](const std::string& line) {
    return WrapWords(line, {.columns = columns, .indent = 0}) + "\n";
  };
  std::string text =
      wrapped(fmt::format("{} of {}, {}, {}, {}, {} cache", CountOf(report.num_tokens, "token"),
                          report.text, CountOf(report.num_threads, "thread"), report.isa,
                          report.precision, report.kv_type)) +
      wrapped("KL(dense || sparse) in nats; " + sets) + "\n";
  const PolicyNames policies = NamesOf(report, columns);
  text += policies.legend;
  const std::vector<std::string>& names = policies.names;
  std::vector<size_t> all(report.sets.size());
  std::iota(all.begin(), all.end(), size_t{0});
  const TextTable whole = TableOf(report, {.names = names, .has_cost = true, .sets = all});
  if (columns == 0 || whole.Width() <= columns) return text + whole.ToText(columns);
  text += TableOf(report, {.names = names, .has_cost = true, .sets = {}}).ToText(columns);
  for (const size_t set : all) {
    text +=
        "\n" + TableOf(report, {.names = names, .has_cost = false, .sets = {set}}).ToText(columns);
  }
  return text;
}

std::string DivergenceAsJson(const DivergenceReport& report) {
  Json nll;
  for (size_t s = 0; s < report.sets.size(); ++s) {
    nll[report.sets[s].name] = Number(report.result.dense_nll[s]);
  }
  Json policies = Json::array();
  for (const PolicyDivergence& one : report.result.policies) {
    policies.push_back(PolicyJson(report, one));
  }
  const Json json = {{"model", report.model},
                     {"text", report.text},
                     {"tokens", report.num_tokens},
                     {"threads", report.num_threads},
                     {"isa", report.isa},
                     {"precision", report.precision},
                     {"kv_type", report.kv_type},
                     {"dense", {{"seconds", report.result.dense_seconds}, {"nll", std::move(nll)}}},
                     {"policies", std::move(policies)}};
  // Names of files may hold any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string DivergenceAsSvg(const DivergenceReport& report) {
  TradeOffPlot plot = {.title = "What a sparse prefill loses and what it costs",
                       .subtitle = fmt::format("{} of {}; prefill time against dense, loss in nats",
                                               CountOf(report.num_tokens, "token"), report.text),
                       .x_label = "time of prefill, sparse / dense",
                       .panels = {}};
  for (size_t s = 0; s < report.sets.size(); ++s) {
    TradeOffPanel& panel = plot.panels.emplace_back();
    panel.title =
        fmt::format("KL(dense || sparse), {}: {}",
                    CountOf(std::ssize(report.sets[s].positions), "position"), report.sets[s].name);
    for (const PolicyDivergence& one : report.result.policies) {
      panel.points.push_back(
          {.label = PolicyLabel(one.policy), .cost = one.time_ratio, .loss = one.sets[s].mean});
    }
  }
  return TradeOffAsSvg(plot);
}

}  // namespace baton
