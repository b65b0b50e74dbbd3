#include "stretto/ir/ops/axes.h"

#include "stretto/base/error.h"

namespace stretto::ir::ops {

std::vector<int64_t> normalized_axes(std::vector<int64_t> axes, int64_t rank) {
  std::vector<bool> seen(static_cast<size_t>(rank), false);
  for (int64_t& axis : axes) {
    axis = normalize_axis(axis, rank, "axes");
    if (seen[axis]) throw_invalid("axes: axis {} is named twice", axis);
    seen[axis] = true;
  }
  return axes;
}

AxisView::AxisView(std::span<const int64_t> shape, int64_t axis)
    : outer(element_count(shape.first(axis))),
      size(shape[axis]),
      inner(element_count(shape.subspan(axis + 1))) {}

}  // namespace stretto::ir::ops
