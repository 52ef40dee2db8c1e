// One row of `baton bench kernels`: a kernel, timed beside the limits of the machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/limit_work.h"
#include "bench/machine.h"
#include "bench/measure.h"
#include "kernels/isa.h"

namespace baton {

// How fast a row was, measured against one limit.
struct LimitShare {
  std::string limit;      // "int8", "fma", "read"
  double limit_rate = 0;  // median; multiply-adds or bytes per second
  double share = 0;       // median over the rounds of the row's rate divided by the limit's
};

// A row beside another of the same matrix or work.
struct Comparison {
  std::string of;  // "time of 1 row", "speed of 1 thread"
  double ratio = 0;
};

// Where the time of sparse attention goes, beside dense attention of the same rows.
struct SparseCost {
  double kept_rate = 0;  // of visible keys in kept blocks, as a multiple of dense attention's rate
  // Of the time that all else may take at dense attention's rate: (2 - density) / (2 * block) of
  // dense attention's for scoring means and adding those that were dropped; times the estimates of
  // a block.
  double overhead = 0;
  // Stages by name; they sum to the overhead.
  std::vector<std::pair<std::string, double>> stages;
};

struct KernelRow {
  std::string operation;  // "linear", "prefill-attention", "decode-attention", or a row operation
  std::string type;       // of the weights; empty without weights
  std::string precision;  // empty where it changes nothing
  Isa isa = Isa::kPortable;
  int num_threads = 1;
  std::vector<std::pair<std::string, int64_t>> shape;  // names and extents
  Summary seconds;                                     // of one call
  std::string unit;                                    // "GMAC/s", "GFLOP/s", "GB/s"
  double rate = 0;                                     // median
  std::vector<LimitShare> limits;                      // the one that is expected to bind first
  std::optional<Comparison> comparison;
  std::optional<SparseCost> sparse_cost;
  bool is_right = true;  // the bits are those of the portable kernel
};

// A limit to time beside the work, and how much of the like the work does.
struct Yardstick {
  std::string name;
  LimitWork work;
};

// What the rows of one report share.
struct KernelReport {
  Machine machine;
  bool is_quick = false;  // the figures mean nothing
  std::vector<KernelRow> rows;
  std::vector<std::string> notes;
};

// Tables of at most 100 columns, one JSON object, or lines of comma-separated values.
// `columns`: of the screen, 0 for any width (TextTable::ToText).
std::string KernelsAsText(const KernelReport& report, size_t columns);
std::string KernelsAsJson(const KernelReport& report);
std::string KernelsAsCsv(const KernelReport& report);

}  // namespace baton
