// Cumulative sums along one axis, y[o, i, :] = x[o, 0, :] + ... + x[o, i, :], or products.
#pragma once

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Input and output: [outer, axis, inner] of float32, float64, int32 or int64. Floats are computed
// with in double and are rounded when they are stored; integers wrap around. exclusive: without
// x[o, i, :] itself. reverse: from the end of the axis on. product: products instead of sums.
struct CumSumProblem {
  Target target{};
  int64_t outer = 1, axis = 1, inner = 1;
  DType dtype = DType::kFloat32;
  uint8_t exclusive = 0, reverse = 0, product = 0;
  uint8_t reserved[4] = {};
};

std::string problem_key(const CumSumProblem& p);
Signature problem_signature(const CumSumProblem& p);
double problem_flops(const CumSumProblem& p);

extern const Family kCumSum;

}  // namespace stretto::kernels
