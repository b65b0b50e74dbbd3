// From index tensors to positions in the data: what gathering and scattering share. Negative
// indices count from the end; one out of range throws InvalidArgument.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/tensor/shape.h"

namespace stretto::ir::ops {

std::vector<int64_t> normalized_indices(std::vector<int64_t> indices, int64_t size);

// GatherElements and ScatterElements: indices may not reach beyond data off the axis.
void check_elements_shape(const Shape& data, const Shape& indices, int64_t axis);
// The rows of `indices` along its last axis, and where they point in `data`: the index at `i` of a
// row is of the element base(row) + i * step + index * stride.
struct ElementRows {
  ElementRows(const Shape& data, const Shape& indices, int64_t axis);
  int64_t base(int64_t row) const;
  int64_t count, length;       // of rows, and of indices in each
  int64_t size, stride, step;  // size: an index lies below

 private:
  Shape outer_;  // of indices, but for the last axis
  std::vector<int64_t> strides_;
};

// GatherND and ScatterND: the position of the first element that each index tuple (the last axis of
// `indices`) selects; `batch` leading axes are shared.
std::vector<int64_t> tuple_positions(const Shape& data, const Shape& indices,
                                     std::span<const int64_t> values, int64_t batch);

}  // namespace stretto::ir::ops
