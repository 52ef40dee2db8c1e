// Columns of text, aligned.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace baton {

// Cells in rows below a heading. Columns of numbers stand right, others left; two blanks between
// columns, none at the end of a line.
class TextTable {
 public:
  // One name per column; a name that begins with '>' (which is not shown) makes a column of
  // numbers. The first `num_keys` columns tell which row it is. Requires: num_keys >= 1.
  TextTable(const std::vector<std::string>& columns, size_t num_keys);
  // With one key.
  explicit TextTable(const std::vector<std::string>& columns) : TextTable(columns, 1) {}

  // Requires: as many cells as columns.
  void AddRow(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Columns of the screen that the table takes as it is.
  size_t Width() const;

  // For a screen of so many columns; 0: of any width. Columns that are empty in every row are left
  // out, heading and all. A table that is too wide has one blank between columns, or else several
  // tables below each other, each with the key columns; the text of its first column is then
  // broken at blanks, if that alone takes more than half of the screen.
  std::string ToText(size_t columns) const;

 private:
  using Columns = std::vector<size_t>;  // their numbers, ascending

  std::vector<size_t> Widths() const;
  std::string Part(const Columns& shown, const std::vector<size_t>& widths, size_t gap) const;
  TextTable WithBrokenKeys(size_t most) const;

  size_t num_keys_;
  std::vector<std::string> names_;
  std::vector<bool> is_number_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace baton
