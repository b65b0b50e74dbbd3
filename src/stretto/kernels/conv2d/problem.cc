#include "stretto/kernels/conv2d/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {

std::string problem_key(const Conv2dProblem& p) {
  return fmt::format("conv2d {}x{}x{}x{} k{} {}x{} s{}x{} d{}x{} p{},{},{},{} g{}{} {}>{}{} {}",
                     p.n, p.c, p.h, p.w, p.k, p.kernel_h, p.kernel_w, p.stride_h, p.stride_w,
                     p.dilation_h, p.dilation_w, p.pad_top, p.pad_left, p.pad_bottom, p.pad_right,
                     p.groups, p.exact ? " exact" : "", layout_name(p.x_layout),
                     layout_name(p.y_layout), epilogue_text(p.epilogue), target_text(p.target));
}

std::string weights_key(Conv2dProblem p) {
  p.target.threads = 1;
  p.target.panel_width = 0;
  p.n = p.h = p.w = 0;
  p.exact = 0;
  p.x_layout = p.y_layout = Layout::kPlain;
  p.epilogue = {.bias = p.epilogue.bias};
  return problem_key(p);
}

Signature problem_signature(const Conv2dProblem& p) {
  Signature s;
  s.inputs.push_back({.name = "x", .shape = {p.n, p.c, p.h, p.w}, .layout = p.x_layout});
  s.constants.push_back({.name = "weight", .shape = {p.k, p.c / p.groups, p.kernel_h, p.kernel_w}});
  if (p.epilogue.bias) s.constants.push_back({.name = "bias", .shape = {p.k}});
  const Shape y{p.n, p.k, p.out_h(), p.out_w()};
  if (p.epilogue.residual) {
    s.inputs.push_back({.name = "residual", .shape = y, .layout = p.y_layout});
  }
  s.outputs.push_back({.name = "y", .shape = y, .layout = p.y_layout});
  return s;
}

double problem_flops(const Conv2dProblem& p) {
  return 2.0 * p.n * p.k * p.out_h() * p.out_w() * (p.c / p.groups) * p.kernel_h * p.kernel_w;
}

}  // namespace stretto::kernels
