#include "stretto/ir/ops/strided.h"

#include <algorithm>

namespace stretto::ir::ops {

Strides broadcast_strides(std::span<const int64_t> from, std::span<const int64_t> to) {
  const Strides dense = row_major_strides(from);
  Strides strides(to.size(), 0);
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1) strides[to.size() - from.size() + i] = dense[i];
  }
  return strides;
}

StridedLoop::StridedLoop(Shape shape, std::vector<Strides> operands)
    : strides_(operands.size()), count_(element_count(shape)) {
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    const bool merges =
        !shape_.empty() && std::all_of(operands.begin(), operands.end(), [&](const Strides& s) {
          const auto j = static_cast<size_t>(&s - operands.data());
          return strides_[j].back() == s[axis] * shape[axis];
        });
    if (merges) {
      shape_.back() *= shape[axis];
    } else {
      shape_.push_back(shape[axis]);
    }
    for (size_t j = 0; j < operands.size(); ++j) {
      if (merges) strides_[j].pop_back();
      strides_[j].push_back(operands[j][axis]);
    }
  }
  for (const Strides& s : strides_) steps_.push_back(s.empty() ? 0 : s.back());
}

StridedLoop StridedLoop::broadcast(const Shape& shape, std::span<const Shape> inputs) {
  std::vector<Strides> operands;
  for (const Shape& input : inputs) operands.push_back(broadcast_strides(input, shape));
  return StridedLoop(shape, std::move(operands));
}

}  // namespace stretto::ir::ops
