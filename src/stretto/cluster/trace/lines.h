// What the readers of traces share: lines, cells, and numbers with the file and line in the error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace stretto::cluster {

// The lines of a text with a header; cells are found by the title of their column.
class Lines {
 public:
  // `header` false: the text has none, and cells are found by number.
  Lines(std::string_view text, std::string file, char separator, bool header = true);

  bool next();  // to the next line that is not empty; false: there is none
  int line() const { return line_; }

  // The number of the column; -1: there is none.
  int column(std::string_view title) const;
  // The same, but a column that is missing is a FormatError.
  int needed(std::string_view title) const;
  int width() const { return static_cast<int>(cells_.size()); }

  std::string_view cell(int column) const;
  std::string_view title(int column) const { return titles_[static_cast<size_t>(column)]; }
  // Numbers of a cell from `lowest` to `highest`; anything else is a FormatError.
  double number(int column, double lowest, double highest) const;
  int64_t whole(int column, int64_t lowest, int64_t highest) const;
  int64_t seconds_as_ms(int column) const;  // at least 0

  // Throws FormatError: "FILE: line N: PROBLEM".
  [[noreturn]] void fail(const std::string& problem) const;

 private:
  void split();

  std::string_view rest_, text_;
  std::string file_;
  char separator_;
  bool header_;
  int line_ = 0;
  std::vector<std::string_view> titles_, cells_;
};

// Names as indices of a list.
class Names {
 public:
  explicit Names(std::vector<std::string>& list);
  int index(std::string_view name);

 private:
  std::vector<std::string>& list_;
  std::unordered_map<std::string, int> known_;
};

// "2017-10-09 07:01:55" or with a T between them, as seconds since 1970; -1: it is neither.
int64_t parse_date(std::string_view text);

}  // namespace stretto::cluster
