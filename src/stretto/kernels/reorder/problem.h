// Rank-4 fp32 tensors between the plain and the blocked layout.
#pragma once

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Input: x [n, c, h, w] in `from`. Output: y, the same tensor in `to`. Padding lanes of a blocked y
// become zero or garbage.
struct ReorderProblem {
  Target target{};
  int64_t n = 1, c = 1, h = 1, w = 1;
  Layout from = Layout::kPlain, to = Layout::kBlocked;
};

std::string problem_key(const ReorderProblem& p);
Signature problem_signature(const ReorderProblem& p);
double problem_flops(const ReorderProblem& p);

extern const Family kReorder;

}  // namespace stretto::kernels
