#include "stretto/ir/ops/strided.h"

#include <algorithm>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"

namespace stretto::ir::ops {

bool broadcasts_to(std::span<const int64_t> from, std::span<const int64_t> to) {
  if (from.size() > to.size()) return false;
  const auto tail = to.subspan(to.size() - from.size());
  return std::equal(from.begin(), from.end(), tail.begin(),
                    [](int64_t a, int64_t b) { return a == b || a == 1; });
}

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

void StridedLoop::rows(int64_t begin, int64_t end, Row f) const {
  if (begin >= end) return;
  const size_t rank = shape_.size(), operands = steps_.size();
  const int64_t row = rank == 0 ? 1 : shape_.back();
  std::vector<int64_t> index(rank, 0), offsets(operands, 0);
  int64_t rest = begin;
  for (size_t axis = rank; axis-- > 0;) {
    index[axis] = rest % shape_[axis];
    rest /= shape_[axis];
    for (size_t j = 0; j < operands; ++j) offsets[j] += index[axis] * strides_[j][axis];
  }
  for (int64_t at = begin; at < end;) {
    const int64_t first = rank == 0 ? 0 : index.back();
    const int64_t length = std::min(row - first, end - at);
    f(at, length, offsets.data(), steps_.data());
    at += length;
    if (at >= end) break;
    for (size_t j = 0; j < operands; ++j) offsets[j] -= first * steps_[j];
    index.back() = 0;
    for (size_t axis = rank - 1; axis-- > 0;) {
      if (++index[axis] < shape_[axis]) {
        for (size_t j = 0; j < operands; ++j) offsets[j] += strides_[j][axis];
        break;
      }
      index[axis] = 0;
      for (size_t j = 0; j < operands; ++j) {
        offsets[j] -= (shape_[axis] - 1) * strides_[j][axis];
      }
    }
  }
}

void copy_strided(const Tensor& from, int64_t offset, Shape shape, Strides strides, Tensor& to,
                  ThreadTeam* team) {
  const StridedLoop loop(std::move(shape), {std::move(strides)});
  with_width(from.dtype(), [&]<typename T>() {
    const T* source = data_of<T>(from) + offset;
    T* target = data_of<T>(to);
    parallel(team, loop.count(), 1 << 15, [&](int64_t begin, int64_t end) {
      loop.rows(begin, end,
                [&](int64_t at, int64_t length, const int64_t* offsets, const int64_t* steps) {
                  for (int64_t i = 0; i < length; ++i)
                    target[at + i] = source[offsets[0] + i * steps[0]];
                });
    });
  });
}

}  // namespace stretto::ir::ops
