#include "stretto/ir/ops/indexing.h"

#include <utility>

#include "stretto/base/error.h"

namespace stretto::ir::ops {
namespace {

int64_t normalized(int64_t index, int64_t size) {
  if (index < -size || index >= size) {
    throw_invalid("indices: {} is outside [-{}, {})", index, size, size);
  }
  return index < 0 ? index + size : index;
}

}  // namespace

std::vector<int64_t> normalized_indices(std::vector<int64_t> indices, int64_t size) {
  for (int64_t& index : indices) index = normalized(index, size);
  return indices;
}

void check_elements_shape(const Shape& data, const Shape& indices, int64_t axis) {
  bool fits = data.size() == indices.size();
  for (size_t i = 0; fits && i < data.size(); ++i) {
    fits = indices[i] <= data[i] || static_cast<int64_t>(i) == axis;
  }
  if (!fits) {
    throw_invalid("indices: shape {} does not fit data of shape {} along axis {}",
                  shape_text(indices), shape_text(data), axis);
  }
}

ElementRows::ElementRows(const Shape& data, const Shape& indices, int64_t axis)
    : length(indices.back()), size(data[axis]), outer_(indices), strides_(row_major_strides(data)) {
  outer_.pop_back();
  count = element_count(outer_);
  stride = std::exchange(strides_[axis], 0);
  step = strides_.back();
}

int64_t ElementRows::base(int64_t row) const {
  int64_t position = 0;
  for (size_t j = outer_.size(); j-- > 0; row /= outer_[j])
    position += row % outer_[j] * strides_[j];
  return position;
}

std::vector<int64_t> tuple_positions(const Shape& data, const Shape& indices,
                                     std::span<const int64_t> values, int64_t batch) {
  const std::vector<int64_t> strides = row_major_strides(data);
  const auto length = static_cast<size_t>(indices.back());
  const std::span<const int64_t> shape(indices);
  // Tuples per element of the shared leading axes.
  const int64_t tuples =
      element_count(shape.subspan(batch, shape.size() - 1 - static_cast<size_t>(batch)));
  const int64_t batch_stride = batch == 0 ? 0 : strides[batch - 1];
  std::vector<int64_t> positions(length == 0 ? 0 : values.size() / length);
  for (size_t i = 0; i < positions.size(); ++i) {
    int64_t position = batch == 0 ? 0 : static_cast<int64_t>(i) / tuples * batch_stride;
    for (size_t j = 0; j < length; ++j) {
      const size_t axis = static_cast<size_t>(batch) + j;
      position += normalized(values[i * length + j], data[axis]) * strides[axis];
    }
    positions[i] = position;
  }
  return positions;
}

}  // namespace stretto::ir::ops
