// Product of 8-bit rows with constant 8-bit weights, summed exactly in int32, as float32:
// y[m, n] = scale * (sum_k (x[m, k] - zero) * w[k, n]) + bias[n].
#pragma once

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Inputs: x [m, k], uint8, or int8 when `is_signed`; scale, float32, one value or [n] when
// `scale_per_column`; the zero point, one value of x's type, if `zero`. Constants: weight [k, n],
// int8; bias [n], float32, if `bias`. Output: y [m, n], float32. All plain. k is at most
// kMostSteps.
struct MatmulIntegerProblem {
  // No sum of that many products overflows: 65536 * 255 * 128 < 2^31.
  static constexpr int64_t kMostSteps = 65536;

  Target target{};
  int64_t m = 1, n = 1, k = 1;
  int32_t is_signed = 0, zero = 0, scale_per_column = 0, bias = 0;
};

std::string problem_key(const MatmulIntegerProblem& p);
std::string weights_key(MatmulIntegerProblem p);
Signature problem_signature(const MatmulIntegerProblem& p);
double problem_flops(const MatmulIntegerProblem& p);

extern const Family kMatmulInteger;

}  // namespace stretto::kernels
