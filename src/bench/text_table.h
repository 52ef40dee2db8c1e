// Columns of text, aligned.
#pragma once

#include <string>
#include <vector>

namespace baton {

// Cells in rows below a heading. Columns of numbers stand right, others left; two blanks between
// columns, none at the end of a line.
class TextTable {
 public:
  // One name per column; a name that begins with '>' (which is not shown) makes a column of
  // numbers.
  explicit TextTable(const std::vector<std::string>& columns);

  // Requires: as many cells as columns.
  void AddRow(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }

  // Columns that are empty in every row are left out, heading and all.
  std::string ToText() const;

 private:
  std::vector<std::string> names_;
  std::vector<bool> is_number_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace baton
