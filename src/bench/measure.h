// Timing of work on machines that do not stand still.
//
// Neighbours, clocks and temperatures change within seconds, so a peak measured a minute ago is no
// yardstick. Whatever is to be compared is therefore timed in turn: a round times each work once,
// rounds go on until there are enough of them, and a comparison is the median of the rounds' own
// ratios. What disturbs a whole round cancels out, what disturbs one sample is outvoted.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace baton {

// A clock to time work with.
class WorkClock {
 public:
  virtual ~WorkClock() = default;
  virtual double NowSeconds() = 0;
};

// Time that the calling thread has computed: what others take of the CPU does not count. For work
// of one thread.
class ThreadCpuClock final : public WorkClock {
 public:
  double NowSeconds() override;
};

// Time on the wall. For work of several threads.
class WallClock final : public WorkClock {
 public:
  double NowSeconds() override;
};

struct TimingOptions {
  double sample_seconds = 2e-3;  // a sample repeats short work until it takes so long
  double min_seconds = 0.3;      // of each work's samples, taken together
  double max_seconds = 30;       // of all samples, taken together; then no further round begins
  int min_rounds = 7;
  int max_rounds = 101;
};

// One round and short samples: enough to see that everything runs.
TimingOptions QuickTiming();

// Seconds per run of one work, one for each round.
using Samples = std::vector<double>;

// Times `works` in turn. A work runs once before all rounds, to warm up and to be sized.
// Units: seconds. Requires: 1 <= min_rounds <= max_rounds; the works leave nothing behind that
// makes a later run longer.
std::vector<Samples> TimeInTurn(std::span<const std::function<void()>> works, WorkClock& clock,
                                const TimingOptions& options);

// What samples say.
struct Summary {
  double median = 0;
  double min = 0;
  double max = 0;
  double spread = 0;  // the distance between the quartiles, as a share of the median
  int count = 0;
};

// Requires: samples are not empty.
Summary Summarize(std::span<const double> samples);

// The median of numerator[i] / denominator[i]. Requires: as many of one as of the other, not none.
double MedianRatio(std::span<const double> numerator, std::span<const double> denominator);

}  // namespace baton
