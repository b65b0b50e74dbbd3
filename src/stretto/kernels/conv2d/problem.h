// 2-D convolution: y[n,k,oy,ox] = epilogue(sum_{c,r,s} x[n,c,oy*stride+r*dilation-pad,...] *
// w[k,c,r,s])
#pragma once

#include "stretto/kernels/epilogue.h"
#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Inputs: x [n, c, h, w] in x_layout, then residual [n, k, out_h, out_w] in y_layout if the
// epilogue has one. Constants: weight [k, c / groups, kernel_h, kernel_w], bias [k] if the epilogue
// has one. Output: y [n, k, out_h, out_w] in y_layout. 1-D convolutions have h = kernel_h = 1.
struct Conv2dProblem {
  Target target{};
  int64_t n = 1, c = 1, h = 1, w = 1, k = 1;
  int32_t kernel_h = 1, kernel_w = 1;
  int32_t stride_h = 1, stride_w = 1;
  int32_t dilation_h = 1, dilation_w = 1;
  int32_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  int32_t groups = 1;
  int32_t exact = 0;  // sums of integers below 2^24: nothing may round, transforms among them
  Layout x_layout = Layout::kPlain, y_layout = Layout::kPlain;
  Epilogue epilogue{};

  int64_t out_h() const {
    return (h + pad_top + pad_bottom - dilation_h * (kernel_h - 1) - 1) / stride_h + 1;
  }
  int64_t out_w() const {
    return (w + pad_left + pad_right - dilation_w * (kernel_w - 1) - 1) / stride_w + 1;
  }
};

std::string problem_key(const Conv2dProblem& p);
std::string weights_key(Conv2dProblem p);
Signature problem_signature(const Conv2dProblem& p);
double problem_flops(const Conv2dProblem& p);

extern const Family kConv2d;

}  // namespace stretto::kernels
