// Axis arguments, and the view of a tensor as [outer, axis, inner].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/tensor/shape.h"

namespace stretto::ir::ops {

// Every axis made non-negative. Throws InvalidArgument when one is out of range or named twice.
std::vector<int64_t> normalized_axes(std::vector<int64_t> axes, int64_t rank);

// The sizes before, at and after one axis.
struct AxisView {
  AxisView(std::span<const int64_t> shape, int64_t axis);
  int64_t outer, size, inner;
};

}  // namespace stretto::ir::ops
