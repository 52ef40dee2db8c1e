#include "bench/measure.h"

#include <time.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace baton {
namespace {

double ReadClock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double SecondsOf(const std::function<void()>& work, int64_t runs, WorkClock& clock) {
  const double start = clock.NowSeconds();
  for (int64_t i = 0; i < runs; ++i) work();
  return clock.NowSeconds() - start;
}

// Warms the work up, and says how often a sample is to run it.
int64_t RunsPerSample(const std::function<void()>& work, WorkClock& clock, double sample_seconds) {
  constexpr int64_t kMostRuns = int64_t{1} << 24;
  // A first run may be slow for once; only one that is long by far tells that the work is.
  if (SecondsOf(work, 1, clock) >= 10 * sample_seconds) return 1;
  int64_t runs = 1;
  while (runs < kMostRuns) {
    const double seconds = SecondsOf(work, runs, clock);
    if (seconds >= sample_seconds) break;
    const double wanted = 1.2 * sample_seconds / std::max(seconds, 1e-9);
    runs = std::min(kMostRuns, runs * std::max<int64_t>(2, std::llround(std::min(wanted, 1e6))));
  }
  return runs;
}

// The value at `share` of the way through sorted samples, between two of them if need be.
double Quantile(std::span<const double> sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return sorted[below] + part * (sorted[above] - sorted[below]);
}

}  // namespace

double ThreadCpuClock::NowSeconds() {
  return ReadClock(CLOCK_THREAD_CPUTIME_ID);
}

double WallClock::NowSeconds() {
  return ReadClock(CLOCK_MONOTONIC);
}

TimingOptions QuickTiming() {
  return {
      .sample_seconds = 0, .min_seconds = 0, .max_seconds = 30, .min_rounds = 1, .max_rounds = 1};
}

std::vector<Samples> TimeInTurn(std::span<const std::function<void()>> works, WorkClock& clock,
                                const TimingOptions& options) {
  CHECK_GE(options.min_rounds, 1);
  CHECK_GE(options.max_rounds, options.min_rounds);
  std::vector<int64_t> runs;
  for (const auto& work : works) {
    runs.push_back(RunsPerSample(work, clock, options.sample_seconds));
  }
  std::vector<Samples> samples(works.size());
  std::vector<double> spent(works.size());
  double all_spent = 0;
  for (int round = 0; round < options.max_rounds; ++round) {
    const bool is_enough =
        round >= options.min_rounds &&
        std::all_of(spent.begin(), spent.end(), [&](double s) { return s >= options.min_seconds; });
    if (is_enough || (round > 0 && all_spent >= options.max_seconds)) break;
    for (size_t i = 0; i < works.size(); ++i) {
      const double seconds = SecondsOf(works[i], runs[i], clock);
      // No clock is finer than this; a ratio of two samples stays finite.
      samples[i].push_back(std::max(seconds, 1e-9) / static_cast<double>(runs[i]));
      spent[i] += seconds;
      all_spent += seconds;
    }
  }
  return samples;
}

Summary Summarize(std::span<const double> samples) {
  CHECK(!samples.empty());
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const double median = Quantile(sorted, 0.5);
  const double between_quartiles = Quantile(sorted, 0.75) - Quantile(sorted, 0.25);
  return {.median = median,
          .min = sorted.front(),
          .max = sorted.back(),
          .spread = median > 0 ? between_quartiles / median : 0,
          .count = static_cast<int>(sorted.size())};
}

double MedianRatio(std::span<const double> numerator, std::span<const double> denominator) {
  CHECK_EQ(numerator.size(), denominator.size());
  std::vector<double> ratios;
  for (size_t i = 0; i < numerator.size(); ++i) ratios.push_back(numerator[i] / denominator[i]);
  return Summarize(ratios).median;
}

}  // namespace baton
