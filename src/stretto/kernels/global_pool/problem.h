// One maximum or average per image and channel.
#pragma once

#include "stretto/kernels/family.h"
#include "stretto/kernels/pool2d/problem.h"

namespace stretto::kernels {

// Input: x [n, c, h, w]. Output: y [n, c, 1, 1], both in `layout`. A maximum over a NaN is NaN.
struct GlobalPoolProblem {
  Target target{};
  int64_t n = 1, c = 1, h = 1, w = 1;
  Pooling kind = Pooling::kAverage;
  Layout layout = Layout::kPlain;
  uint8_t reserved[6] = {};
};

std::string problem_key(const GlobalPoolProblem& p);
Signature problem_signature(const GlobalPoolProblem& p);
double problem_flops(const GlobalPoolProblem& p);

extern const Family kGlobalPool;

}  // namespace stretto::kernels
