// Normalisation of rows: y = (s - mean(s)) / sqrt(variance(s) + epsilon) * scale + bias, s = x [+
// residual]. Zhang and Sennrich 2019 for `rms`: y = s / sqrt(mean(s^2) + epsilon) * scale + bias.
#pragma once

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Inputs: x [m, n], then residual [m, n] if set. Constants: scale [n] if set, bias [n] if set.
// Outputs: y [m, n], then s [m, n] if sum_output is set.
struct LayerNormProblem {
  Target target{};
  int64_t m = 1, n = 1;
  float epsilon = 1e-5f;
  uint8_t scale = 1, bias = 1, residual = 0, sum_output = 0;
  uint8_t rms = 0;
  uint8_t reserved[7] = {};
};

std::string problem_key(const LayerNormProblem& p);
std::string weights_key(LayerNormProblem p);
Signature problem_signature(const LayerNormProblem& p);
double problem_flops(const LayerNormProblem& p);

extern const Family kLayerNorm;

}  // namespace stretto::kernels
