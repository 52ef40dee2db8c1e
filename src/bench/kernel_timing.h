// Times the works of some rows in turn with their limits, and fills in what follows from it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/kernel_row.h"

namespace baton {

// One row to be: what is known before timing, and the work itself.
struct TimedWork {
  KernelRow row;
  std::function<void()> run;
  double amount = 0;  // in the unit's multiply-adds, operations or bytes; 10^9 of them are one unit
  double macs = 0;    // multiply-adds, to compare with "int8" and "fma"; 0: not compared
  double bytes = 0;   // to compare with "read"; 0: not compared
};

struct TimingPlan {
  // By falling interest; those that a work has no amount for are left out of its row.
  std::vector<Yardstick> yardsticks;
  TimingOptions timing;
  // Filled in for all works but the first: their time as a multiple of the first's.
  std::string compare_time_with_first;
};

// Requires: all works use equally many threads; those of one are timed by its CPU time.
std::vector<KernelRow> TimeRows(std::vector<TimedWork> works, const TimingPlan& plan);

// The time of one work divided by that of another, timed in turn on the wall.
double TimeRatio(const std::function<void()>& of, const std::function<void()>& to,
                 const TimingOptions& timing);

}  // namespace baton
