// What `baton simulate` says: a table, JSON, a picture.
#pragma once

#include <string>

#include "simulate/simulation.h"

namespace baton {

// For people, below 80 columns.
// `columns`: of the screen, 0 for any width (TextTable::ToText).
std::string SimulationAsText(const SimulationResult& result, size_t columns);

// One object; times in seconds.
std::string SimulationAsJson(const SimulationResult& result, const SimulationOptions& options);

// TTFT and the gaps between tokens over the virtual time, as SVG.
std::string SimulationAsSvg(const SimulationResult& result, const std::string& subtitle);

}  // namespace baton
