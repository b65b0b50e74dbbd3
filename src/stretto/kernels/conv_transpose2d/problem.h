// Transposed 2-D convolution (ONNX ConvTranspose): every input pixel adds its value times the
// kernel to the output at stride * position + tap * dilation - pad:
//   y[n,k,oy,ox] = epilogue(sum over c,r,s,iy,ix with oy = iy*stride + r*dilation - pad, ...
//                           of x[n,c,iy,ix] * w[c,k,r,s])
#pragma once

#include "stretto/kernels/epilogue.h"
#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Inputs: x [n, c, h, w] in x_layout, then residual [n, k, out_h, out_w] in y_layout if the
// epilogue has one. Constants: weight [c, k / groups, kernel_h, kernel_w], bias [k] if the epilogue
// has one.
// Output: y [n, k, out_h, out_w] in y_layout. Pads take rows and columns away from the output;
// output_padding adds some at its end. 1-D: h = kernel_h = 1.
struct ConvTranspose2dProblem {
  Target target{};
  int64_t n = 1, c = 1, h = 1, w = 1, k = 1;
  int32_t kernel_h = 1, kernel_w = 1;
  int32_t stride_h = 1, stride_w = 1;
  int32_t dilation_h = 1, dilation_w = 1;
  int32_t pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
  int32_t output_padding_h = 0, output_padding_w = 0;
  int32_t groups = 1;
  Layout x_layout = Layout::kPlain, y_layout = Layout::kPlain;
  Epilogue epilogue{};

  int64_t out_h() const {
    return stride_h * (h - 1) + output_padding_h + dilation_h * (kernel_h - 1) + 1 - pad_top -
           pad_bottom;
  }
  int64_t out_w() const {
    return stride_w * (w - 1) + output_padding_w + dilation_w * (kernel_w - 1) + 1 - pad_left -
           pad_right;
  }
};

std::string problem_key(const ConvTranspose2dProblem& p);
std::string weights_key(ConvTranspose2dProblem p);
Signature problem_signature(const ConvTranspose2dProblem& p);
double problem_flops(const ConvTranspose2dProblem& p);

extern const Family kConvTranspose2d;

}  // namespace stretto::kernels
