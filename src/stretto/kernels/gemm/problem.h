// Matrix product with constant weights: y[m, n] = epilogue(sum_k x[m, k] * w[k, n]).
#pragma once

#include "stretto/kernels/epilogue.h"
#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Inputs: x [m, k], then residual [m, n] if the epilogue has one. Constants: weight [k, n], or [n,
// k] when `transposed`; bias [n] if the epilogue has one. Output: y [m, n]. All plain. Leading
// dimensions of a batched operand belong into m.
struct GemmProblem {
  Target target{};
  int64_t m = 1, n = 1, k = 1;
  int32_t transposed = 0;  // 1: the weight is [n, k]
  Epilogue epilogue{};
};

std::string problem_key(const GemmProblem& p);
std::string weights_key(GemmProblem p);
Signature problem_signature(const GemmProblem& p);
double problem_flops(const GemmProblem& p);

extern const Family kGemm;

}  // namespace stretto::kernels
