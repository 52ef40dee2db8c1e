// The machine in a report.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench/machine.h"

namespace baton {

// Some lines: CPU, caches, memory, instruction sets.
std::string MachineAsText(const Machine& machine);

nlohmann::ordered_json MachineAsJson(const Machine& machine);

}  // namespace baton
