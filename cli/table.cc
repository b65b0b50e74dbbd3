#include "table.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"

namespace stretto::cli {
namespace {

// Characters rather than bytes of UTF-8: continuation bytes take no column.
size_t columns(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

Table::Table(std::vector<std::string> titles) {
  for (std::string& title : titles) {
    right_.push_back(title.starts_with('>'));
    if (right_.back()) title.erase(0, 1);
  }
  rows_.push_back(std::move(titles));
}

void Table::row(std::vector<std::string> cells) {
  STRETTO_CHECK(cells.size() == right_.size(), "table: {} cells for {} columns", cells.size(),
                right_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<size_t> widths(right_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], columns(row[c]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string gap(widths[c] - columns(row[c]), ' ');
      line += right_[c] ? gap + row[c] : row[c] + gap;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  return out;
}

std::string milliseconds(double ms) {
  if (!std::isfinite(ms)) return "-";
  const int digits = ms > 0 ? static_cast<int>(std::floor(std::log10(ms))) : 0;
  return fmt::format("{:.{}f}", ms, std::clamp(2 - digits, 0, 6));
}

std::string mebibytes(double bytes) { return fmt::format("{:.1f} MiB", bytes / (1 << 20)); }

}  // namespace stretto::cli
