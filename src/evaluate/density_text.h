// What a sparse prefill kept, as a table, as JSON and as a picture.
#pragma once

#include <cstdint>
#include <string>

#include "evaluate/density.h"

namespace baton {

struct DensityReport {
  std::string model;
  std::string text;  // its name
  int64_t num_tokens = 0;
  SparsePolicy policy;
  DensityResult result;
};

// A row for each layer, a column for each KV head.
// `columns`: of the screen, 0 for any width (TextTable::ToText).
std::string DensityAsText(const DensityReport& report, size_t columns);

// One object; the map's tiles, if there is one, with their kept blocks.
std::string DensityAsJson(const DensityReport& report);

// Density by layer and KV head, and the map below it, if there is one.
std::string DensityAsSvg(const DensityReport& report);

}  // namespace baton
