#include "bench/text_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/wrapped_text.h"

namespace baton {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kNarrowGap = 1;

// Of columns beside each other.
size_t WidthOf(const std::vector<size_t>& shown, const std::vector<size_t>& widths, size_t gap) {
  size_t width = 0;
  for (const size_t i : shown) width += widths[i] + (width > 0 ? gap : 0);
  return width;
}

// Broken at blanks into lines of at most so many columns; a longer word stands alone.
std::vector<std::string> LinesOf(const std::string& text, size_t most) {
  std::vector<std::string> lines = {std::string()};
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    // What goes on is moved in.
    if (!lines.back().empty() && ScreenColumns(lines.back()) + 1 + ScreenColumns(word) > most) {
      lines.push_back("  " + word);
    } else {
      lines.back() += (lines.back().empty() ? "" : " ") + word;
    }
    begin = end + 1;
  }
  return lines;
}

}  // namespace

TextTable::TextTable(const std::vector<std::string>& columns, size_t num_keys)
    : num_keys_(num_keys) {
  CHECK(num_keys >= 1 && num_keys <= columns.size());
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

// 0: a column that is empty.
std::vector<size_t> TextTable::Widths() const {
  std::vector<size_t> widths(names_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], ScreenColumns(row[i]));
  }
  for (size_t i = 0; i < names_.size(); ++i) {
    if (widths[i] > 0) widths[i] = std::max(widths[i], ScreenColumns(names_[i]));
  }
  return widths;
}

size_t TextTable::Width() const {
  size_t width = 0;
  for (const size_t own : Widths()) width += own == 0 ? 0 : own + (width > 0 ? kGap : 0);
  return width;
}

std::string TextTable::Part(const Columns& shown, const std::vector<size_t>& widths,
                            size_t gap) const {
  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (const size_t i : shown) {
      if (!line.empty()) line += std::string(gap, ' ');
      const std::string blanks(widths[i] - ScreenColumns(cells[i]), ' ');
      line += is_number_[i] ? blanks + cells[i] : cells[i] + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line(names_);
  for (const auto& row : rows_) add_line(row);
  return text;
}

// What does not fit goes on in rows that have nothing else.
TextTable TextTable::WithBrokenKeys(size_t most) const {
  TextTable broken = *this;
  broken.rows_.clear();
  for (const std::vector<std::string>& row : rows_) {
    const std::vector<std::string> lines = LinesOf(row[0], most);
    for (size_t i = 0; i < lines.size(); ++i) {
      std::vector<std::string> cells = i == 0 ? row : std::vector<std::string>(row.size());
      cells[0] = lines[i];
      broken.AddRow(std::move(cells));
    }
  }
  return broken;
}

std::string TextTable::ToText(size_t columns) const {
  const std::vector<size_t> widths = Widths();
  Columns keys;
  Columns others;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (widths[i] > 0) (i < num_keys_ ? keys : others).push_back(i);
  }
  Columns all = keys;
  all.insert(all.end(), others.begin(), others.end());
  for (const size_t gap : {kGap, kNarrowGap}) {
    if (columns == 0 || WidthOf(all, widths, gap) <= columns) return Part(all, widths, gap);
  }
  if (!is_number_[0] && widths[0] > columns / 2) {
    const TextTable broken = WithBrokenKeys(columns / 2);
    if (broken.Widths()[0] < widths[0]) return broken.ToText(columns);
  }
  // All parts look alike.
  const size_t key_width = WidthOf(keys, widths, kGap) + kGap;
  const bool is_tight = std::any_of(others.begin(), others.end(), [&](size_t other) {
    return key_width + widths[other] > columns;
  });
  const size_t gap = is_tight ? kNarrowGap : kGap;
  std::string text;
  for (size_t next = 0; next < others.size();) {
    Columns shown = keys;
    do {
      shown.push_back(others[next++]);
    } while (next < others.size() &&
             WidthOf(shown, widths, gap) + gap + widths[others[next]] <= columns);
    text += (text.empty() ? "" : "\n") + Part(shown, widths, gap);
  }
  return text;
}

}  // namespace baton
