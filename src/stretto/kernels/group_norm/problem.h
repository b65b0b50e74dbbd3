// Group and instance normalisation (Wu and He 2018): every group of channels of an image is
// normalised over its channels and pixels, then scaled and shifted per channel.
#pragma once

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Input: x [n, c, hw]. Constants: scale [c] if set, bias [c] if set. Output: y [n, c, hw]. groups
// divides c; groups = c is instance normalisation.
struct GroupNormProblem {
  Target target{};
  int64_t n = 1, c = 1, hw = 1;
  int32_t groups = 1;
  float epsilon = 1e-5f;
  uint8_t scale = 1, bias = 1;
  uint8_t reserved[6] = {};
};

std::string problem_key(const GroupNormProblem& p);
std::string weights_key(GroupNormProblem p);
Signature problem_signature(const GroupNormProblem& p);
double problem_flops(const GroupNormProblem& p);

extern const Family kGroupNorm;

}  // namespace stretto::kernels
