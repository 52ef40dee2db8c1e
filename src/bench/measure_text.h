// Timings in a report.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "bench/measure.h"

namespace baton {

// An object with the names of the members.
nlohmann::ordered_json SummaryAsJson(const Summary& summary);

}  // namespace baton
