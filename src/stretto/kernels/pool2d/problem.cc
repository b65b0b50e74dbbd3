#include "stretto/kernels/pool2d/problem.h"

#include <fmt/format.h>

#include <algorithm>

namespace stretto::kernels {

std::string problem_key(const Pool2dProblem& p) {
  return fmt::format("pool2d {}{}{} {}x{}x{}x{} > {}x{} k{}x{} s{}x{} d{}x{} p{},{},{},{} {} {}",
                     p.kind == Pooling::kMax ? "max" : "average",
                     p.count_include_pad ? "_padded" : "",
                     p.dtype == DType::kFloat32 ? "" : fmt::format(" {}", dtype_name(p.dtype)), p.n,
                     p.c, p.h, p.w, p.out_h, p.out_w, p.kernel_h, p.kernel_w, p.stride_h,
                     p.stride_w, p.dilation_h, p.dilation_w, p.pad_top, p.pad_left, p.pad_bottom,
                     p.pad_right, layout_name(p.layout), target_text(p.target));
}

Signature problem_signature(const Pool2dProblem& p) {
  return {.inputs =
              {{.name = "x", .dtype = p.dtype, .shape = {p.n, p.c, p.h, p.w}, .layout = p.layout}},
          .constants = {},
          .outputs = {{.name = "y",
                       .dtype = p.dtype,
                       .shape = {p.n, p.c, p.out_h, p.out_w},
                       .layout = p.layout}}};
}

double problem_flops(const Pool2dProblem& p) {
  return 1.0 * p.n * p.c * p.out_h * p.out_w * p.kernel_h * p.kernel_w;
}

WindowRange window_range(int64_t o, int64_t size, int32_t kernel, int32_t stride, int32_t dilation,
                         int32_t pad, int32_t pad_end) {
  // The number of k < kernel with first + k * dilation < limit.
  const int64_t first = o * stride - pad;
  const auto below = [&](int64_t limit) {
    const int64_t k = (std::max<int64_t>(limit - first, 0) + dilation - 1) / dilation;
    return static_cast<int32_t>(std::min<int64_t>(k, kernel));
  };
  const int32_t end = below(size);
  return {std::min(below(0), end), end, below(size + pad_end)};
}

}  // namespace stretto::kernels
