// The inner kernel of depthwise convolution with square 3x3, 5x5 and 7x7 kernels, stride 1 and 2.
#pragma once

#include <cstdint>

#include "stretto/base/cpu.h"

namespace stretto::kernels::conv2d {

// A strip: some output rows x up to 14 neighbouring output columns of one channel block. Each input
// vector is loaded once per kernel row and used for every output that sees it. Strides in elements.
struct Strip {
  const float* in = nullptr;  // input row 0 at the column under the strip's first tap, maybe outside
  int64_t in_row = 0;
  int64_t in_h = 0, pad_top = 0;
  int64_t first = 0, last = 0;  // input columns of the strip, from `in`, that exist: [first, last)
  const float* weights = nullptr;  // [kernel row][kernel column][lane]
  const float* bias = nullptr;
  float* out = nullptr;  // output row y_begin, first column
  int64_t out_row = 0;
  int64_t y_begin = 0, y_end = 0;
  float lo = 0, hi = 0;  // result = min(max(sum, lo), hi); infinities for none
};

using StripRun = void (*)(const Strip&);

// The kernel for `columns` output columns, null if there is none: ask strip_columns for the most.
StripRun strip_kernel(Isa isa, int kernel, int stride, int columns);
int strip_columns(Isa isa);

}  // namespace stretto::kernels::conv2d
