// The machine in a report.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "bench/machine.h"

namespace baton {

// Some lines: CPU, caches, memory, instruction sets. `columns`: as of TextTable::ToText.
std::string MachineAsText(const Machine& machine, size_t columns);

// Another line below them, its value where theirs are.
std::string ReportLine(std::string_view label, std::string_view value, size_t columns);

// What the words of a table mean.
std::string ReportLegend(std::string_view text, size_t columns);

// What is to be read beside a table: "note: TEXT" for each.
std::string ReportNotes(const std::vector<std::string>& notes, size_t columns);

nlohmann::ordered_json MachineAsJson(const Machine& machine);

}  // namespace baton
