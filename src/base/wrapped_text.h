// Running text broken into lines for a screen.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace baton {

// Columns that a text takes on a screen, one for each character of UTF-8.
size_t ScreenColumns(std::string_view text);

// Columns of running text that is on no screen.
inline constexpr size_t kPipeColumns = 80;

// Of a text on a screen. Units: columns.
struct WrapShape {
  size_t columns = 0;  // of the screen; 0: no screen, kPipeColumns
  size_t indent = 0;   // of lines but the first, which leaves as much room
};

// Breaks text at blanks, and a word that is longer than a line behind its commas, so that no line
// is wider than the screen.
std::string WrapWords(std::string_view text, const WrapShape& shape);

// Whether running text is fit to read in what a screen has behind the indent. Units: columns.
bool HasRoomBeside(size_t indent, size_t columns);

// A name, and what is said of it where the shape's indent ends; below the name where that is
// longer, and, indented less, where a screen has no room for it at the side.
std::string TwoColumns(std::string_view name, std::string_view text, const WrapShape& shape);

// "label    value" and a line feed: the value is wrapped and stands where the shape's indent ends.
// Requires: the label is shorter than the indent.
std::string LabelledLine(std::string_view label, std::string_view value, const WrapShape& shape);

}  // namespace baton
