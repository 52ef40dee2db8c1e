// What a sparse prefill kept and took, as answers of every kind report it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "forward/prefill.h"

namespace baton {

// The share of the past's blocks that were read, in 0..1; 1 where attention is dense.
double PrefillDensity(const BlockCounts& counts);
// Of all layers together that are not dense throughout.
double PrefillDensity(const PrefillReport& report);

// {"density", "layer_densities": [one a layer], "thread_seconds": {a stage: of all threads}}.
nlohmann::ordered_json PrefillReportJson(const PrefillReport& report);

}  // namespace baton
