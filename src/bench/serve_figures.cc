#include "bench/serve_figures.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace baton {

std::optional<Percentiles> PercentilesOf(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const auto at = [&](double share) {
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<size_t>(rank, 1) - 1];
  };
  return Percentiles{.p50 = at(0.50), .p90 = at(0.90), .p99 = at(0.99), .max = values.back()};
}

Result<ServeRow> ServeRowOf(const ServeOutcome& outcome, const EngineStatus& status) {
  ServeRow row;
  row.num_requests = std::ssize(outcome.clients) + outcome.num_refused;
  row.num_refused = outcome.num_refused;
  row.seconds = outcome.seconds;
  std::vector<double> ttfts;
  std::vector<double> gaps;
  int64_t num_good = 0;
  int64_t num_output = 0;
  int64_t num_prompt = 0;
  int64_t num_cached = 0;
  for (const auto& client : outcome.clients) {
    if (!client->result()) return Forward(client->result());
    const GenerationFigures& figures = client->result()->figures;
    ttfts.push_back(client->ttft());
    double longest_gap = 0;
    for (size_t i = 1; i < client->tokens().size(); ++i) {
      gaps.push_back(client->tokens()[i] - client->tokens()[i - 1]);
      longest_gap = std::max(longest_gap, gaps.back());
    }
    const bool is_good = client->ttft() <= outcome.limits.ttft && longest_gap <= outcome.limits.gap;
    num_good += is_good ? 1 : 0;
    num_output += figures.generated_tokens;
    num_prompt += figures.prompt_tokens;
    num_cached += figures.cached_tokens;
    row.preemptions += figures.preemptions;
  }
  const double steps_seconds =
      status.forward_seconds + status.sampling_seconds + status.other_seconds;
  row.ttft = PercentilesOf(std::move(ttfts));
  row.gaps = PercentilesOf(std::move(gaps));
  row.output_rate = static_cast<double>(num_output) / outcome.seconds;
  row.prompt_rate = static_cast<double>(num_prompt) / outcome.seconds;
  row.good_share = static_cast<double>(num_good) / static_cast<double>(row.num_requests);
  row.cached_share =
      num_prompt > 0 ? static_cast<double>(num_cached) / static_cast<double>(num_prompt) : 0;
  row.mean_running = status.steps == 0 ? 0
                                       : static_cast<double>(status.requests_in_steps) /
                                             static_cast<double>(status.steps);
  row.sampling_share = steps_seconds > 0 ? status.sampling_seconds / steps_seconds : 0;
  row.other_share = steps_seconds > 0 ? status.other_seconds / steps_seconds : 0;
  return row;
}

void FindGaps(std::span<const std::vector<double>> streams, const ReadingTime& reading,
              LongPromptRow& row) {
  std::vector<double> before;
  std::vector<double> after;
  for (const std::vector<double>& times : streams) {
    for (size_t i = 1; i < times.size(); ++i) {
      const double gap = times[i] - times[i - 1];
      // The last ones, when all streams were running.
      if (times[i] <= reading.begin && times[i] > reading.begin - 8 * gap) before.push_back(gap);
      if (times[i - 1] > reading.end) after.push_back(gap);
    }
  }
  row.gap_before = PercentilesOf(std::move(before)).value_or(Percentiles{}).p50;
  row.gap_after = PercentilesOf(std::move(after)).value_or(Percentiles{}).p50;
  const double seconds = reading.end - reading.begin;
  for (const std::vector<double>& times : streams) {
    for (size_t i = 1; i < times.size(); ++i) {
      if (times[i] <= reading.begin || times[i - 1] > reading.end) continue;
      const double gap = times[i] - times[i - 1];
      const double when = std::clamp((times[i] - reading.begin) / seconds, 0.0, 1.0);
      const double without = row.gap_before + when * (row.gap_after - row.gap_before);
      row.longest_gap = std::max(row.longest_gap, gap);
      row.longest_gap_steps = std::max(row.longest_gap_steps, gap / without);
    }
  }
}

}  // namespace baton
