// The rows of conv2d, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/conv2d/problem.h"

namespace stretto::kernels::conv2d {

using Row = Candidate<Conv2dProblem>;

extern const Row kGemm1x1;     // pointwise on the blocked layout: packed matrix product
extern const Row kDirect;      // any kernel on the blocked layout, whole blocks per group
extern const Row kDirectStem;  // plain input with few channels, blocked output
extern const Row kDepthwise;   // one channel per group on the blocked layout
// 3x3 on the blocked layout, stride 1 or 2, output tiles of 2x2 (any accuracy), 4x4 or 6x6
// (accuracy=fast).
extern const Row kWinogradF2, kWinogradF4, kWinogradF6, kWinogradF2Stride2, kWinogradF4Stride2;
extern const Row kStrassen1x1;  // pointwise on the blocked layout, seven products of quarters
extern const Row kGrouped;      // 3x3 with 2, 4 or 8 channels per group on the blocked layout
extern const Row kRowTaps;      // up to 4 output channels, plain maps: vectors of pixels
extern const Row kIm2colGemm;   // anything in any layout
extern const Row kReference;    // any problem, any layout; double accumulation

}  // namespace stretto::kernels::conv2d
