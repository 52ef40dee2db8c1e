// What was found of needles, as a table, as JSON and as a picture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "evaluate/needle.h"

namespace baton {

struct NeedleReport {
  std::string model;
  std::string text;  // its name
  std::vector<int64_t> lengths;
  std::vector<int64_t> depths;
  std::vector<SparsePolicy> policies;
  NeedleResult result;
};

// A row for each length and depth: found of trials, and the mean log-probability of the answer.
// `columns`: of the screen, 0 for any width (TextTable::ToText).
std::string NeedleAsText(const NeedleReport& report, size_t columns);

// One object; what is not finite is null.
std::string NeedleAsJson(const NeedleReport& report);

// A map of found shares for dense prefill and for each policy, depth downwards.
std::string NeedleAsSvg(const NeedleReport& report);

}  // namespace baton
