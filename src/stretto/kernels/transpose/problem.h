// Any permutation of axes.
#pragma once

#include <span>

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Input: x, dense, of dims[0, rank) and any type. Output: y, dense, whose dimension k is x's
// dimension perm[k].
struct TransposeProblem {
  static constexpr int kMaxRank = 6;

  Target target{};
  int64_t dims[kMaxRank] = {1, 1, 1, 1, 1, 1};
  int32_t rank = 1;
  int8_t perm[kMaxRank] = {0, 1, 2, 3, 4, 5};
  DType dtype = DType::kFloat32;
  uint8_t reserved[5] = {};
};

// Unit axes dropped, axes that stay neighbours merged. Throws InvalidArgument unless perm is a
// permutation of the axes, Unsupported when more than 6 dimensions remain.
TransposeProblem transpose_problem(const Target& target, std::span<const int64_t> shape,
                                   std::span<const int64_t> perm, DType dtype);

std::string problem_key(const TransposeProblem& p);
Signature problem_signature(const TransposeProblem& p);
double problem_flops(const TransposeProblem& p);

extern const Family kTranspose;

}  // namespace stretto::kernels
