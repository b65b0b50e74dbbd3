// Batched matrix product of two run-time inputs: y[b, m, n] = alpha * sum_k x[b, m, k] * z[b, k,
// n].
#pragma once

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Inputs: x [batch..., m, k], z [batch..., k, n], or [batch..., n, k] when `transposed`. Output: y
// [batch..., m, n]. All plain. There are `rank` batch dimensions; in one that x or z broadcasts,
// that input has extent 1.
struct MatmulProblem {
  static constexpr int kMaxBatchRank = 6;

  Target target{};
  int32_t rank = 0;
  int64_t batch[kMaxBatchRank] = {};
  uint8_t broadcast_x[kMaxBatchRank] = {}, broadcast_z[kMaxBatchRank] = {};  // 1: extent 1
  int64_t m = 1, n = 1, k = 1;
  int32_t transposed = 0;  // 1: z is [..., n, k]
  float alpha = 1;

  int64_t batches() const {
    int64_t count = 1;
    for (int i = 0; i < rank; ++i) count *= batch[i];
    return count;
  }
};

// Which matrix of an input goes with output matrix `index`; `broadcast` is broadcast_x or
// broadcast_z.
int64_t matmul_operand(const MatmulProblem& p, const uint8_t* broadcast, int64_t index);

std::string problem_key(const MatmulProblem& p);
Signature problem_signature(const MatmulProblem& p);
double problem_flops(const MatmulProblem& p);

extern const Family kMatmul;

}  // namespace stretto::kernels
