// What elementwise kernels compute in float64: whatever compares, tests and chooses, by the
// formulas of tensor/elementwise.inc. The interpreter does arithmetic.
#pragma once

#include "stretto/kernels/elementwise/problem.h"

namespace stretto::kernels::elementwise {

// X(name) for every operation of the list.
// clang-format off
#define STRETTO_DOUBLE_OPERATIONS(X)                                              \
  X(Copy) X(Constant) X(Abs) X(Where) X(Equal) X(Less) X(Greater) X(LessOrEqual)  \
  X(GreaterOrEqual) X(IsNaN) X(ToBool)
// clang-format on

constexpr bool has_doubles(ElementOp op) {
  switch (op) {
#define STRETTO_CASE(name) case ElementOp::k##name:
    STRETTO_DOUBLE_OPERATIONS(STRETTO_CASE)
#undef STRETTO_CASE
    return true;
    default:
      return false;
  }
}

}  // namespace stretto::kernels::elementwise
