// y = exp(x - max) / sum(exp(x - max)) along one axis, or its logarithm.
#pragma once

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Input: x [outer, axis, inner]. Output: y of the same shape. A slice whose maximum is infinite or
// that holds a NaN becomes NaN, as the formula says.
struct SoftmaxProblem {
  Target target{};
  int64_t outer = 1, axis = 1, inner = 1;
  int32_t log = 0;  // 1: log(softmax)
  int32_t reserved = 0;
};

std::string problem_key(const SoftmaxProblem& p);
Signature problem_signature(const SoftmaxProblem& p);
double problem_flops(const SoftmaxProblem& p);

extern const Family kSoftmax;

}  // namespace stretto::kernels
