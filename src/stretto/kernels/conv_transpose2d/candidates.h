// The rows of conv_transpose2d, declared one per line; candidates.cc lists them in order of
// preference.
#pragma once

#include "stretto/kernels/conv_transpose2d/problem.h"

namespace stretto::kernels::conv_transpose2d {

using Row = Candidate<ConvTranspose2dProblem>;

// 4x4 stride 2 on the blocked layout: F(2,2) (any accuracy) or F(4,2) per output phase.
extern const Row kWinogradF2, kWinogradF4;
extern const Row kPhaseSplit;  // blocked layout: an ordinary small convolution per output phase
extern const Row kReference;   // any problem, any layout; double accumulation

}  // namespace stretto::kernels::conv_transpose2d
