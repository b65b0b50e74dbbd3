#include "stretto/tensor/shape_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "stretto/base/error.h"

namespace stretto {
namespace {

// Reads the text from its front.
class RangeReader {
 public:
  explicit RangeReader(std::string_view text) : text_(text), rest_(text) {}

  ShapeRange read() {
    ShapeRange range;
    do {
      range.push_back(dimension());
    } while (take("x"));
    if (!rest_.empty()) fail();
    return range;
  }

 private:
  [[noreturn]] void fail() const {
    throw_invalid(
        "shape: expected sizes or ranges with x between, as in 1x3x224x224, 1..8x3x224x224 or "
        "batch:1..x128, got '{}'",
        text_);
  }

  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  bool at_number() const { return !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9'; }

  int64_t number() {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (!at_number() || error != std::errc{}) fail();
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

  Dimension dimension() {
    Dimension d;
    if (!at_number()) {
      const size_t colon = rest_.find(':');
      if (colon == std::string_view::npos || colon == 0) fail();
      d.name = rest_.substr(0, colon);
      rest_.remove_prefix(colon + 1);
    }
    d.least = d.most = number();
    if (!take("..")) return d;
    d.most = at_number() ? number() : Dimension::kAny;
    if (d.most < d.least) {
      throw_invalid("shape: the range {}..{} in '{}' is empty", d.least, d.most, text_);
    }
    return d;
  }

  std::string_view text_, rest_;
};

}  // namespace

ShapeRange parse_shape_range(std::string_view text) {
  return text == "scalar" ? ShapeRange() : RangeReader(text).read();
}

std::string shape_range_text(const ShapeRange& range) {
  if (range.empty()) return "scalar";
  std::string text;
  for (const Dimension& d : range) {
    if (!text.empty()) text += 'x';
    if (!d.name.empty()) text += d.name + ":";
    text += fmt::format("{}", d.least);
    if (d.fixed()) continue;
    text += "..";
    if (d.most != Dimension::kAny) text += fmt::format("{}", d.most);
  }
  return text;
}

ShapeRange fixed_range(std::span<const int64_t> shape) {
  ShapeRange range;
  for (int64_t size : shape) range.push_back({size, size, {}});
  return range;
}

bool is_fixed(const ShapeRange& range) {
  return std::all_of(range.begin(), range.end(), [](const Dimension& d) { return d.fixed(); });
}

}  // namespace stretto
