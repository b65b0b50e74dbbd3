// The inner kernels of depthwise and of finely grouped convolution on the blocked layout.
#pragma once

#include <cstdint>

#include "stretto/base/cpu.h"

namespace stretto::kernels::conv2d {

// A strip: some output rows x up to 14 neighbouring output columns of one channel block. Each input
// vector is loaded once per kernel row (and channel of a group) and used for every output that sees
// it. Strides in elements. Positions outside the input may only lie within kernel - 1 of either
// end, unless the kernel is of any size.
struct Strip {
  const float* in =
      nullptr;  // input row 0 at the column under the strip's first tap, maybe outside
  int64_t in_row = 0;
  int64_t in_h = 0, pad_top = 0;
  int64_t first = 0, last = 0;  // input columns of the strip, from `in`, that exist: [first, last)
  const float* weights = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;  // output row y_begin, first column
  int64_t out_row = 0;
  int64_t y_begin = 0, y_end = 0;
  int64_t kernel_h = 0, kernel_w = 0, stride_h = 1, dilation_h = 1, dilation_w = 1;  // of any size
  float lo = 0, hi = 0;  // result = min(max(sum, lo), hi); infinities for none
};

using StripRun = void (*)(const Strip&);

// Depthwise, kernel x kernel (3, 5, 7), stride 1 and 2. Weights [kernel row][kernel column][lane].
// Null when there is none; `columns` is at most depthwise_strip_columns.
StripRun depthwise_strip(Isa isa, int kernel, int stride, int columns);
// Depthwise with any kernel, dilation and vertical stride, which the Strip says; horizontal stride
// 1 or 2, else null. Somewhat slower than those above.
StripRun any_depthwise_strip(Isa isa, int stride, int columns);
int any_depthwise_strip_columns(Isa isa);
// How many taps of a kernel row they add at a time. Neighbours load each input vector once for all
// of them; with stride 2 that saves less than compilers lose by spilling sums.
constexpr int any_strip_taps(int stride, int dilation) {
  return stride == 1 && dilation == 1 ? 4 : 1;
}
int depthwise_strip_columns(Isa isa);

// 3x3 with `group` input and output channels per group (2, 4, 8, fewer than the lanes), stride 1
// and 2. Weights [kernel row][channel of the group][kernel column][output lane].
StripRun grouped_strip(Isa isa, int group, int stride, int columns);
int grouped_strip_columns(Isa isa);

}  // namespace stretto::kernels::conv2d
