// Shapes: row-major dimensions, outermost first. A rank-0 shape is a scalar.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stretto {

using Shape = std::vector<int64_t>;

// No tensor may have more elements than this; larger requests are errors, not overflow.
constexpr int64_t kMaxElements = int64_t{1} << 40;

// Product of the dimensions. Throws InvalidArgument for a negative dimension or above kMaxElements.
int64_t element_count(std::span<const int64_t> shape);

// Elements between neighbours along each axis of a dense row-major tensor.
std::vector<int64_t> row_major_strides(std::span<const int64_t> shape);

// NumPy broadcasting. Throws InvalidArgument naming both shapes when they do not fit.
Shape broadcast(std::span<const int64_t> a, std::span<const int64_t> b);

// -rank <= axis < rank, made non-negative. Throws InvalidArgument beginning with `what`.
int64_t normalize_axis(int64_t axis, int64_t rank, std::string_view what);

std::string shape_text(std::span<const int64_t> shape);  // "1x64x56x56"; "scalar" for rank 0
Shape parse_shape(std::string_view text);                // the inverse; throws InvalidArgument

}  // namespace stretto
