// Rows of text that are separated by commas (RFC 4180).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stretto::data {

// Fields may be in quotes, with spaces before them, which are doubled inside of them; a field in
// quotes may have line breaks and commas. Lines end with LF or CR LF. Empty lines are skipped.
class CsvReader {
 public:
  // `file`: for errors. Both outlive the reader.
  CsvReader(const std::string& file, std::string_view text);

  // False at the end. Throws FormatError with the line.
  bool next(std::vector<std::string>& fields);
  // "FILE:LINE" of the row that next() gave last.
  std::string where() const;

 private:
  std::string field();
  std::string quoted();
  void end_line();

  const std::string& file_;
  std::string_view rest_;
  int64_t line_ = 1, row_line_ = 1;
};

}  // namespace stretto::data
