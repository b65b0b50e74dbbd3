// Aligned columns for the terminal.
#pragma once

#include <string>
#include <vector>

namespace stretto::cli {

class Table {
 public:
  // Column titles; a title that begins with '>' is for a right-aligned column.
  explicit Table(std::vector<std::string> titles);
  // As many cells as titles.
  void row(std::vector<std::string> cells);
  // Titles, then rows, two spaces between columns, a newline after each line.
  std::string text() const;

 private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

std::string milliseconds(double ms);  // three significant digits: "0.0312", "25.3", "118"
std::string mebibytes(double bytes);  // "97.8 MiB"

}  // namespace stretto::cli
