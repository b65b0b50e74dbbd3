// y[o, i, :] = x[o, index[i], :]: rows of an embedding table, or any axis by indices.
#pragma once

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Inputs: x [outer, axis, inner] of any type, index [indices] of int32 or int64. Output: y
// [outer, indices, inner]. Negative indices count from the end; those out of range give zeros.
struct GatherProblem {
  Target target{};
  int64_t outer = 1, axis = 1, inner = 1, indices = 1;
  DType dtype = DType::kFloat32, index_dtype = DType::kInt64;
  uint8_t reserved[6] = {};
};

std::string problem_key(const GatherProblem& p);
Signature problem_signature(const GatherProblem& p);
double problem_flops(const GatherProblem& p);

extern const Family kGather;

}  // namespace stretto::kernels
