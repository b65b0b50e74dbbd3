// One loop over several tensors that see the same index space through different strides: the core
// of broadcasting, transposing, slicing and expanding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/function_ref.h"
#include "stretto/base/team.h"
#include "stretto/tensor/tensor.h"

namespace stretto::ir::ops {

using Strides = std::vector<int64_t>;

// Whether `from` broadcasts to exactly `to`.
bool broadcasts_to(std::span<const int64_t> from, std::span<const int64_t> to);

// Strides, in elements of a dense tensor of shape `from`, that make it look like shape `to`
// (NumPy broadcasting; `from` must broadcast to `to`).
Strides broadcast_strides(std::span<const int64_t> from, std::span<const int64_t> to);

// Fills `to` (dense, of `shape` up to renaming) with the elements of `from`, beginning at `offset`,
// that `strides` picks. Types are equal.
void copy_strided(const Tensor& from, int64_t offset, Shape shape, Strides strides, Tensor& to,
                  ThreadTeam* team);

// Visits an index space in row-major order. Neighbouring axes that all operands step through
// evenly are merged, so that rows are as long as they can be.
class StridedLoop {
 public:
  // One stride per axis of `shape` for each operand.
  StridedLoop(Shape shape, std::vector<Strides> operands);

  // An operand per input, broadcast to `shape`.
  static StridedLoop broadcast(const Shape& shape, std::span<const Shape> inputs);

  int64_t count() const { return count_; }

  // For the elements [begin, end) in row-major order, row by row: f on `length` elements starting
  // at number `position`; operand j's first one is at offsets[j] and each next one steps[j]
  // further.
  using Row = FunctionRef<void(int64_t position, int64_t length, const int64_t* offsets,
                               const int64_t* steps)>;
  void rows(int64_t begin, int64_t end, Row f) const;

 private:
  Shape shape_;
  std::vector<Strides> strides_;  // by operand
  Strides steps_;                 // strides of the last axis, by operand
  int64_t count_ = 0;
};

}  // namespace stretto::ir::ops
