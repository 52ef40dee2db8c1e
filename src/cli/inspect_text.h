// An InspectReport for people and for programs.
#pragma once

#include <cstddef>
#include <string>

#include "cli/inspect_report.h"

namespace baton {

// Lines of "label  value" for a screen of so many columns; 0: none, 80 are taken. Text from the
// file is made fit for a terminal.
std::string InspectText(const InspectReport& report, size_t columns);

// One JSON object; what the file does not state is null. Bytes that are not UTF-8 become U+FFFD.
std::string InspectJson(const InspectReport& report);

}  // namespace baton
