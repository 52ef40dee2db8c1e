// A comparison of sparse policies as a table, as JSON and as a picture.
#pragma once

#include <string>
#include <vector>

#include "evaluate/divergence.h"

namespace baton {

// What was compared on what.
struct DivergenceReport {
  std::string model;
  std::string text;  // its name
  int64_t num_tokens = 0;
  std::string isa;
  std::string precision;
  std::string kv_type;
  int num_threads = 1;
  std::vector<PositionSet> sets;
  DivergenceResult result;
};

// A row for each policy: density, time, and the loss over each set of positions, in tables of their
// own where one is too wide.
// `columns`: of the screen, 0 for any width (TextTable::ToText).
std::string DivergenceAsText(const DivergenceReport& report, size_t columns);

// One object; what is not finite is null.
std::string DivergenceAsJson(const DivergenceReport& report);

// The loss against the time, a panel for each set, with the policies that no other beats in both
// joined by a line. Requires: the result has times.
std::string DivergenceAsSvg(const DivergenceReport& report);

}  // namespace baton
