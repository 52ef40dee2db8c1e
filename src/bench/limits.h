// `baton bench limits`: what this machine can do at most, measured.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/machine.h"
#include "bench/measure.h"
#include "kernels/isa.h"

namespace baton {

// Rates of one kind of work. Units: multiply-adds or bytes per second.
struct LimitRate {
  double median = 0;
  double best = 0;
  double spread = 0;  // see Summary
};

// Arithmetic in registers with one instruction set.
struct ArithmeticLimit {
  Isa isa = Isa::kPortable;
  int num_threads = 1;
  LimitRate float_rate;    // fused multiply-adds of binary32
  LimitRate integer_rate;  // multiply-adds of 8-bit integers
};

// Reading, with the machine's best instruction set.
struct ReadLimit {
  std::string from;  // "L1", "L2", "L3", "memory"
  uint64_t bytes =
      0;  // that were read again and again, per thread from a cache, in all from memory
  int num_threads = 1;
  LimitRate rate;
};

struct LimitsReport {
  Machine machine;
  std::vector<ArithmeticLimit> arithmetic;
  std::vector<ReadLimit> reads;
  // What the user should know: a size that had to be guessed or cut.
  std::vector<std::string> notes;
};

struct LimitsOptions {
  int max_threads = 1;  // reads from memory are measured with 1, 2, 4 ... up to so many
  // Memory that may be taken for reading from behind the caches. Units: bytes.
  uint64_t max_bytes = 0;
  bool is_quick = false;  // one short round of everything
};

// Called before each part of the work.
using BenchProgress = std::function<void(const std::string& what)>;

// Measures each limit by itself, in a few seconds. Errors: exhausted (memory, threads).
Result<LimitsReport> MeasureLimits(const LimitsOptions& options, const BenchProgress& progress);

// A table of at most 100 columns, and one JSON object.
// `columns`: of the screen, 0 for any width (TextTable::ToText).
std::string LimitsAsText(const LimitsReport& report, size_t columns);
std::string LimitsAsJson(const LimitsReport& report);

}  // namespace baton
