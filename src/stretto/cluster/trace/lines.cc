#include "stretto/cluster/trace/lines.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "stretto/base/error.h"

namespace stretto::cluster {
namespace {

void split_cells(std::string_view line, char separator, std::vector<std::string_view>& cells) {
  cells.clear();
  for (;;) {
    const size_t end = line.find(separator);
    cells.push_back(line.substr(0, end));
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
  }
}

// Days since 1970-01-01 in the Gregorian calendar.
int64_t days_since_1970(int64_t year, int64_t month, int64_t day) {
  year -= month <= 2;
  const int64_t era = year / 400;
  const int64_t of_era = year - era * 400;
  const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

bool read_digits(std::string_view text, size_t at, size_t count, int64_t& value) {
  const char* begin = text.data() + at;
  const auto [end, problem] = std::from_chars(begin, begin + count, value);
  return problem == std::errc() && end == begin + count && *begin != '-';
}

}  // namespace

Lines::Lines(std::string_view text, std::string file, char separator, bool header)
    : rest_(text), file_(std::move(file)), separator_(separator), header_(header) {
  if (rest_.starts_with("\xef\xbb\xbf")) rest_.remove_prefix(3);
  if (!header) return;
  header_ = false;  // the first line is read as any other
  if (!next()) fail("expected a header, got an empty file");
  titles_ = cells_;
  header_ = true;
}

bool Lines::next() {
  while (!rest_.empty()) {
    const size_t end = rest_.find('\n');
    text_ = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    ++line_;
    if (!text_.empty() && text_.back() == '\r') text_.remove_suffix(1);
    if (text_.empty()) continue;
    split();
    return true;
  }
  return false;
}

void Lines::split() {
  split_cells(text_, separator_, cells_);
  if (header_ && cells_.size() != titles_.size()) {
    fail(fmt::format("{} cells, but the header has {}", cells_.size(), titles_.size()));
  }
}

int Lines::column(std::string_view title) const {
  for (size_t i = 0; i < titles_.size(); ++i) {
    if (titles_[i] == title) return static_cast<int>(i);
  }
  return -1;
}

int Lines::needed(std::string_view title) const {
  const int found = column(title);
  if (found < 0) fail(fmt::format("the header has no column '{}'", title));
  return found;
}

std::string_view Lines::cell(int column) const { return cells_.at(static_cast<size_t>(column)); }

double Lines::number(int column, double lowest, double highest) const {
  const std::string_view text = cell(column);
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || !std::isfinite(value) ||
      value < lowest || value > highest) {
    const std::string what = titles_.empty() ? fmt::format("cell {}", column + 1)
                                             : std::string(titles_[static_cast<size_t>(column)]);
    fail(fmt::format("{} is '{}', expected a number from {} to {}", what, text, lowest, highest));
  }
  return value;
}

int64_t Lines::whole(int column, int64_t lowest, int64_t highest) const {
  const double value = number(column, static_cast<double>(lowest), static_cast<double>(highest));
  if (value != std::floor(value)) {
    fail(fmt::format("'{}' is not a whole number", cell(column)));
  }
  return static_cast<int64_t>(value);
}

int64_t Lines::seconds_as_ms(int column) const {
  return std::llround(number(column, 0, 1e11) * 1000);
}

void Lines::fail(const std::string& problem) const {
  throw FormatError(file_, -1, fmt::format("line {}: {}", line_, problem));
}

Names::Names(std::vector<std::string>& list) : list_(list) {
  for (size_t i = 0; i < list.size(); ++i) known_.emplace(list[i], static_cast<int>(i));
}

int Names::index(std::string_view name) {
  const auto [at, added] = known_.try_emplace(std::string(name), static_cast<int>(list_.size()));
  if (added) list_.emplace_back(name);
  return at->second;
}

int64_t parse_date(std::string_view text) {
  if (text.size() != 19 || text[4] != '-' || text[7] != '-' ||
      (text[10] != ' ' && text[10] != 'T') || text[13] != ':' || text[16] != ':') {
    return -1;
  }
  int64_t year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
  if (!read_digits(text, 0, 4, year) || !read_digits(text, 5, 2, month) ||
      !read_digits(text, 8, 2, day) || !read_digits(text, 11, 2, hour) ||
      !read_digits(text, 14, 2, minute) || !read_digits(text, 17, 2, second)) {
    return -1;
  }
  if (year < 1970 || month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 ||
      second > 60) {
    return -1;
  }
  return days_since_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
}

}  // namespace stretto::cluster
