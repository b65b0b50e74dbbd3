#include "stretto/data/csv.h"

#include <algorithm>

#include "stretto/base/error.h"

namespace stretto::data {
namespace {

constexpr size_t kMostFields = 1000;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

}  // namespace

CsvReader::CsvReader(const std::string& file, std::string_view text) : file_(file), rest_(text) {
  if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
}

std::string CsvReader::where() const { return fmt::format("{}:{}", file_, row_line_); }

bool CsvReader::next(std::vector<std::string>& fields) {
  fields.clear();
  while (rest_.starts_with('\n') || rest_.starts_with("\r\n")) end_line();
  if (rest_.empty()) return false;
  row_line_ = line_;
  for (;;) {
    if (fields.size() == kMostFields) {
      throw FormatError(where(), -1, fmt::format("more than {} fields", kMostFields));
    }
    const size_t spaces = std::min(rest_.find_first_not_of(" \t"), rest_.size());
    if (rest_.substr(spaces).starts_with('"')) rest_.remove_prefix(spaces);
    fields.push_back(rest_.starts_with('"') ? quoted() : field());
    if (!rest_.starts_with(',')) break;
    rest_.remove_prefix(1);
  }
  end_line();
  return true;
}

std::string CsvReader::field() {
  const size_t size = std::min(rest_.find_first_of(",\n"), rest_.size());
  std::string_view text = rest_.substr(0, size);
  rest_.remove_prefix(size);
  if (!rest_.starts_with(',') && text.ends_with('\r')) text.remove_suffix(1);
  return std::string(text);
}

std::string CsvReader::quoted() {
  std::string text;
  for (;;) {
    rest_.remove_prefix(1);  // the quote
    const size_t size = rest_.find('"');
    if (size == rest_.npos) throw FormatError(where(), -1, "a quote is not closed");
    text += rest_.substr(0, size);
    rest_.remove_prefix(size + 1);
    if (!rest_.starts_with('"')) break;
    text += '"';
  }
  for (const char c : text) line_ += c == '\n';
  if (rest_.starts_with('\r')) rest_.remove_prefix(1);
  if (!rest_.empty() && rest_.front() != ',' && rest_.front() != '\n') {
    throw FormatError(where(), -1, "expected a comma behind the closing quote");
  }
  return text;
}

void CsvReader::end_line() {
  if (rest_.starts_with('\r')) rest_.remove_prefix(1);
  if (rest_.empty()) return;
  rest_.remove_prefix(1);
  ++line_;
}

}  // namespace stretto::data
