// Formats a moment as C's strftime does in the C locale; reads no clock and no locale.
#pragma once

#include <string>
#include <string_view>

#include "text/template_engine.h"

namespace baton::templates {

// Conversions that need a time zone print nothing, as for a time without one in Python.
// Unknown conversions are copied as they are.
std::string FormatTime(const CivilTime& time, std::string_view format);

}  // namespace baton::templates
