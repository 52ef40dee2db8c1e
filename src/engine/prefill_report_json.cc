#include "engine/prefill_report_json.h"

#include <nlohmann/json.hpp>

namespace baton {

double PrefillDensity(const BlockCounts& counts) {
  if (counts.candidates == 0) return 1;
  return static_cast<double>(counts.kept) / static_cast<double>(counts.candidates);
}

double PrefillDensity(const PrefillReport& report) {
  BlockCounts sum;
  for (const BlockCounts& layer : report.layers) {
    sum.kept += layer.kept;
    sum.candidates += layer.candidates;
  }
  return PrefillDensity(sum);
}

nlohmann::ordered_json PrefillReportJson(const PrefillReport& report) {
  nlohmann::ordered_json layers = nlohmann::ordered_json::array();
  for (const BlockCounts& layer : report.layers) layers.push_back(PrefillDensity(layer));
  const auto seconds = [](int64_t ns) { return static_cast<double>(ns) / 1e9; };
  return {{"density", PrefillDensity(report)},
          {"layer_densities", layers},
          {"thread_seconds",
           {{"pack", seconds(report.times.pack)},
            {"score", seconds(report.times.score)},
            {"select", seconds(report.times.select)},
            {"attend", seconds(report.times.attend)},
            {"correct", seconds(report.times.correct)}}}};
}

}  // namespace baton
