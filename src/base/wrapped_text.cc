#include "base/wrapped_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace baton {
namespace {

// Between a name and what is said at its side.
constexpr size_t kGap = 2;
// Of what is said below a name.
constexpr size_t kNarrowIndent = 8;

// The word, or as many of its items as fit; at least one.
std::string_view FirstPiece(std::string_view word, size_t most) {
  if (ScreenColumns(word) <= most) return word;
  size_t end = 0;
  for (size_t comma = word.find(','); comma != std::string_view::npos;
       comma = word.find(',', comma + 1)) {
    if (end > 0 && ScreenColumns(word.substr(0, comma + 1)) > most) break;
    end = comma + 1;
  }
  return end == 0 ? word : word.substr(0, end);
}

}  // namespace

// Bytes that do not go on with a character.
size_t ScreenColumns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string WrapWords(std::string_view text, const WrapShape& shape) {
  const size_t columns = shape.columns == 0 ? kPipeColumns : shape.columns;
  // On a screen that is narrower than the indent, a word a line.
  const size_t most = columns > shape.indent ? columns - shape.indent : 1;
  std::string wrapped;
  std::string line;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    const std::string_view piece = FirstPiece(word, most);
    if (!line.empty() && ScreenColumns(line) + ScreenColumns(piece) > most) {
      line.erase(line.find_last_not_of(' ') + 1);
      wrapped += line + "\n" + std::string(shape.indent, ' ');
      line.clear();
    }
    line += piece;
    text.remove_prefix(piece.size());
    if (text.starts_with(' ')) {
      line += ' ';
      text.remove_prefix(1);
    }
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return wrapped + line;
}

bool HasRoomBeside(size_t indent, size_t columns) {
  constexpr size_t kMinTextColumns = 24;
  return columns >= indent + kMinTextColumns;
}

std::string TwoColumns(std::string_view name, std::string_view text, const WrapShape& shape) {
  const size_t columns = shape.columns == 0 ? kPipeColumns : shape.columns;
  const bool has_room = HasRoomBeside(shape.indent, columns);
  const size_t indent = has_room ? shape.indent : std::min(shape.indent, kNarrowIndent);
  const bool is_below = ScreenColumns(name) + kGap > indent;
  return fmt::format(
      "{}{}{}\n", name,
      is_below ? "\n" + std::string(indent, ' ') : std::string(indent - ScreenColumns(name), ' '),
      WrapWords(text, {.columns = columns, .indent = indent}));
}

std::string LabelledLine(std::string_view label, std::string_view value, const WrapShape& shape) {
  CHECK_LT(ScreenColumns(label), shape.indent);
  return fmt::format("{:<{}}{}\n", label, shape.indent, WrapWords(value, shape));
}

}  // namespace baton
