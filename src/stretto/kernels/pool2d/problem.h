// 2-D pooling: the maximum or the average of every window.
#pragma once

#include "stretto/kernels/family.h"

namespace stretto::kernels {

enum class Pooling : uint8_t { kMax, kAverage };

// Input: x [n, c, h, w]. Output: y [n, c, out_h, out_w], both in `layout` and of type `dtype`:
// float32, or uint8 or int8 (maxima in the plain layout only). The output size is the caller's
// (floor and ceil mode differ only in it); windows may reach beyond the padding. A window without
// real elements gives the least value, for floats -inf (max), or 0 (average). A maximum over a NaN
// is NaN.
struct Pool2dProblem {
  Target target{};
  int64_t n = 1, c = 1, h = 1, w = 1, out_h = 1, out_w = 1;
  int32_t kernel_h = 1, kernel_w = 1;
  int32_t stride_h = 1, stride_w = 1;
  int32_t dilation_h = 1, dilation_w = 1;
  int32_t pad_top = 0, pad_left = 0;
  int32_t pad_bottom = 0, pad_right = 0;  // matter to count_include_pad only
  Pooling kind = Pooling::kMax;
  Layout layout = Layout::kPlain;
  // Averages divide by the positions inside the padded input instead of inside the input.
  uint8_t count_include_pad = 0;
  DType dtype = DType::kFloat32;
};

std::string problem_key(const Pool2dProblem& p);
Signature problem_signature(const Pool2dProblem& p);
double problem_flops(const Pool2dProblem& p);

// Window positions o * stride + k * dilation - pad, k < kernel, that lie in [0, size), and how many
// lie in [-pad, size + pad_end).
struct WindowRange {
  int32_t begin, end;  // of k
  int32_t padded;
};
WindowRange window_range(int64_t o, int64_t size, int32_t kernel, int32_t stride, int32_t dilation,
                         int32_t pad, int32_t pad_end);

extern const Family kPool2d;

}  // namespace stretto::kernels
