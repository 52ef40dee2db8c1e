#include "bench/text_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace baton {
namespace {

// Columns on a screen: bytes that do not go on with a character of UTF-8.
size_t WidthOf(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

TextTable::TextTable(const std::vector<std::string>& columns) {
  for (const std::string& column : columns) {
    const bool is_number = column.starts_with('>');
    is_number_.push_back(is_number);
    names_.push_back(is_number ? column.substr(1) : column);
  }
}

void TextTable::AddRow(std::vector<std::string> cells) {
  CHECK_EQ(cells.size(), names_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToText() const {
  std::vector<size_t> widths(names_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  }
  for (size_t i = 0; i < names_.size(); ++i) {
    if (widths[i] > 0) widths[i] = std::max(widths[i], WidthOf(names_[i]));
  }
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (widths[i] == 0) continue;
      if (!line.empty()) line += "  ";
      const std::string blanks(widths[i] - WidthOf(cells[i]), ' ');
      line += is_number_[i] ? blanks + cells[i] : cells[i] + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line(names_);
  for (const auto& row : rows_) add_line(row);
  return text;
}

}  // namespace baton
