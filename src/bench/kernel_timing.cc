#include "bench/kernel_timing.h"

#include <utility>

#include "base/check.h"

namespace baton {
namespace {

double AmountFor(const TimedWork& work, const std::string& limit) {
  return limit == "read" ? work.bytes : work.macs;
}

}  // namespace

std::vector<KernelRow> TimeRows(std::vector<TimedWork> works, const TimingPlan& plan) {
  CHECK(!works.empty());
  ThreadCpuClock cpu;
  WallClock wall;
  const bool is_alone = works[0].row.num_threads == 1;
  WorkClock& clock = is_alone ? static_cast<WorkClock&>(cpu) : wall;

  std::vector<std::function<void()>> all;
  for (const Yardstick& yardstick : plan.yardsticks) all.push_back(yardstick.work.run);
  for (const TimedWork& work : works) all.push_back(work.run);
  const std::vector<Samples> samples = TimeInTurn(all, clock, plan.timing);

  std::vector<KernelRow> rows;
  const size_t first = plan.yardsticks.size();
  for (size_t i = 0; i < works.size(); ++i) {
    const Samples& own = samples[first + i];
    KernelRow& row = rows.emplace_back(std::move(works[i].row));
    row.seconds = Summarize(own);
    row.rate = works[i].amount / row.seconds.median * 1e-9;
    for (size_t y = 0; y < first; ++y) {
      const Yardstick& yardstick = plan.yardsticks[y];
      const double amount = AmountFor(works[i], yardstick.name);
      if (amount == 0) continue;
      row.limits.push_back(
          {.limit = yardstick.name,
           .limit_rate = yardstick.work.amount / Summarize(samples[y]).median,
           .share = amount / yardstick.work.amount * MedianRatio(samples[y], own)});
    }
    if (i > 0 && !plan.compare_time_with_first.empty()) {
      row.comparison = {.of = plan.compare_time_with_first,
                        .ratio = MedianRatio(own, samples[first])};
    }
  }
  return rows;
}

double TimeRatio(const std::function<void()>& of, const std::function<void()>& to,
                 const TimingOptions& timing) {
  WallClock wall;
  const std::vector<std::function<void()>> works = {of, to};
  const std::vector<Samples> samples = TimeInTurn(works, wall, timing);
  return MedianRatio(samples[0], samples[1]);
}

}  // namespace baton
