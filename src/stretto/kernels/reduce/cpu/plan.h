// How both vectorised kernels go over a tensor.
#pragma once

#include "stretto/kernels/reduce/problem.h"

namespace stretto::kernels::reduce {

// The dimensions sorted: kept and reduced ones, the innermost of all apart.
struct ReducePlan {
  struct Dims {
    int count = 0;
    int64_t size[ReduceProblem::kMaxRank], stride[ReduceProblem::kMaxRank], total = 1;
    int64_t offset(int64_t index) const {
      int64_t at = 0;
      for (int k = count - 1; k >= 0; --k) {
        at += index % size[k] * stride[k];
        index /= size[k];
      }
      return at;
    }
  };
  Dims kept, folded;
  int64_t inner = 1;
  bool inner_reduced = false;
};

inline ReducePlan make_plan(const ReduceProblem& p) {
  ReducePlan plan;
  plan.inner = p.dims[p.rank - 1];
  plan.inner_reduced = p.reduced >> (p.rank - 1) & 1;
  int64_t stride = plan.inner;
  int64_t strides[ReduceProblem::kMaxRank];
  for (int k = p.rank - 2; k >= 0; --k) {
    strides[k] = stride;
    stride *= p.dims[k];
  }
  for (int k = 0; k + 1 < p.rank; ++k) {
    ReducePlan::Dims& dims = p.reduced >> k & 1 ? plan.folded : plan.kept;
    dims.size[dims.count] = p.dims[k];
    dims.stride[dims.count++] = strides[k];
    dims.total *= p.dims[k];
  }
  return plan;
}

}  // namespace stretto::kernels::reduce
