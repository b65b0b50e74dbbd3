#include "stretto/tensor/shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "stretto/base/error.h"

namespace stretto {

int64_t element_count(std::span<const int64_t> shape) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0) throw_invalid("shape: dimension {} is negative", dim);
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (count > kMaxElements / dim) {
      throw_invalid("shape: {} has more than 2^40 elements", shape_text(shape));
    }
    count *= dim;
  }
  return empty ? 0 : count;
}

std::vector<int64_t> row_major_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

Shape broadcast(std::span<const int64_t> a, std::span<const int64_t> b) {
  const size_t rank = std::max(a.size(), b.size());
  Shape out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i < rank - a.size() ? 1 : a[i - (rank - a.size())];
    const int64_t y = i < rank - b.size() ? 1 : b[i - (rank - b.size())];
    if (x != y && x != 1 && y != 1) {
      throw_invalid("shapes {} and {} do not broadcast", shape_text(a), shape_text(b));
    }
    out[i] = x == 1 ? y : x;
  }
  return out;
}

int64_t normalize_axis(int64_t axis, int64_t rank, std::string_view what) {
  if (axis < -rank || axis >= rank) {
    throw_invalid("{}: axis {} is outside [-{}, {})", what, axis, rank, rank);
  }
  return axis < 0 ? axis + rank : axis;
}

std::string shape_text(std::span<const int64_t> shape) {
  if (shape.empty()) return "scalar";
  return fmt::format("{}", fmt::join(shape, "x"));
}

Shape parse_shape(std::string_view text) {
  Shape shape;
  if (text == "scalar") return shape;
  const char* at = text.data();
  const char* end = at + text.size();
  while (true) {
    int64_t dim = 0;
    const auto [next, error] = std::from_chars(at, end, dim);
    if (error != std::errc{} || dim < 0) {
      throw_invalid("shape: expected dimensions like 1x3x224x224, got '{}'", text);
    }
    shape.push_back(dim);
    if (next == end) return shape;
    if (*next != 'x' && *next != ',') {
      throw_invalid("shape: expected dimensions like 1x3x224x224, got '{}'", text);
    }
    at = next + 1;
  }
}

}  // namespace stretto
