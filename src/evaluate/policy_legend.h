// Letters that stand for policies in tables.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace baton {

// "A".."Z", "AA", "AB".. of the policies of a report, in its order.
std::string PolicyLetter(size_t index);

// A line "A  NAME" for each policy, or several where a name is longer than the screen; 0: no
// screen.
std::string LegendText(const std::vector<std::string>& names, size_t columns);

}  // namespace baton
