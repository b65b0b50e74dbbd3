// Every row of conv2d against the reference, over shapes that meet every edge.
#include <gtest/gtest.h>

#include "stretto/kernels/conv2d/problem.h"
#include "stretto/kernels/workbench.h"

namespace stretto::kernels {
namespace {

// Direct sums differ from the double reference by rounding (about sqrt(length) ulp); F(2,3) by a
// few times that; F(4,3) by up to 1.2e-5 of the largest output (measured over thousands of layers).
double tolerance(std::string_view row) {
  return row.find("f4x4") != std::string_view::npos || row.find("f6x6") != std::string_view::npos
             ? 1e-4
             : 2e-5;
}

void check_all(Conv2dProblem p, const char* what) {
  for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > usable_isa()) continue;
    p.target.isa = isa;
    for (Layout x : {Layout::kPlain, Layout::kBlocked}) {
      for (Layout y : {Layout::kPlain, Layout::kBlocked}) {
        p.x_layout = x;
        p.y_layout = y;
        Workbench bench(kConv2d, &p, 7);
        for (int row = 0; row + 1 < kConv2d.rows; ++row) {
          if (!kConv2d.fits(row, &p).ok) continue;
          const Difference d = bench.check(row);
          EXPECT_LE(d.relative_to_max, tolerance(kConv2d.row_name(row)))
              << what << ": " << kConv2d.row_name(row) << " on " << problem_key(p) << " at "
              << d.worst_index << ": got " << d.got << ", expected " << d.expected << " (seed 7)";
        }
      }
    }
  }
}

Conv2dProblem square(int64_t c, int64_t size, int64_t k, int32_t kernel, int32_t stride,
                     int32_t pad, int32_t groups = 1) {
  return {.n = 1, .c = c, .h = size, .w = size, .k = k, .kernel_h = kernel, .kernel_w = kernel,
          .stride_h = stride, .stride_w = stride, .pad_top = pad, .pad_left = pad,
          .pad_bottom = pad, .pad_right = pad, .groups = groups};
}

TEST(Conv2d, CommonLayers) {
  for (int threads : {1, 2}) {
    for (bool fused : {false, true}) {
      for (Conv2dProblem p :
           {square(64, 14, 64, 3, 1, 1), square(64, 14, 128, 1, 1, 0), square(32, 15, 48, 3, 2, 1),
            square(3, 33, 32, 7, 2, 3), square(3, 32, 32, 3, 2, 1), square(64, 14, 64, 3, 1, 1, 64),
            square(64, 15, 64, 3, 2, 1, 64), square(32, 13, 32, 5, 1, 2, 32),
            square(128, 9, 128, 3, 1, 1, 32), square(64, 9, 64, 3, 2, 1, 8),
            square(24, 8, 40, 1, 1, 0), square(40, 8, 24, 1, 2, 0), square(17, 7, 19, 3, 1, 1),
            square(1, 5, 1, 1, 1, 0), square(48, 1, 16, 1, 1, 0), square(16, 4, 16, 2, 2, 0)}) {
        p.target.threads = threads;
        if (fused) {
          p.epilogue = {.activation = Activation::kRelu, .bias = true, .residual = true};
        }
        check_all(p, "common");
      }
    }
  }
}

TEST(Conv2d, UnevenGeometry) {
  Conv2dProblem p = square(20, 11, 36, 3, 1, 1);
  p.w = 17;
  p.n = 2;
  p.pad_left = 2;
  p.pad_bottom = 0;
  check_all(p, "asymmetric padding, batch 2");
  p = square(16, 12, 32, 3, 1, 2);
  p.dilation_h = p.dilation_w = 2;
  check_all(p, "dilated");
  p = square(16, 9, 16, 3, 1, 1);
  p.kernel_w = 1;
  p.pad_left = p.pad_right = 0;
  p.epilogue = {.activation = Activation::kSilu, .bias = true};
  check_all(p, "3x1 kernel, silu");
  p = square(16, 6, 16, 3, 3, 0);
  p.epilogue = {.activation = Activation::kClip, .residual = true,
                .residual_after_activation = true, .alpha = 0, .beta = 0.25f};
  check_all(p, "stride 3, clip before residual");
}

}  // namespace
}  // namespace stretto::kernels
