// Every row of conv_transpose2d against the reference, and the reference against hand-made sums.
#include <gtest/gtest.h>

#include <limits>

#include "stretto/kernels/access.h"
#include "stretto/kernels/conv_transpose2d/problem.h"
#include "stretto/kernels/workbench.h"

namespace stretto::kernels {
namespace {

// As for conv2d: direct sums round by about sqrt(length) ulp, tiles of 4x4 by up to 1.2e-5 of the
// largest output.
double tolerance(std::string_view row) { return row == "winograd_f4x4" ? 1e-4 : 2e-5; }

void check_all(ConvTranspose2dProblem p) {
  for (Isa isa : usable_isas()) {
    p.target.isa = isa;
    for (int threads : {1, 2, 3}) {
      p.target.threads = threads;
      for (Layout layout : {Layout::kPlain, Layout::kBlocked}) {
        p.x_layout = p.y_layout = layout;
        Workbench bench(kConvTranspose2d, &p, 5);
        bench.unalign_inputs();
        if (layout == Layout::kBlocked) {
          const Access x({p.n, p.c, p.h, p.w}, layout, p.target.block());
          const int64_t padded = round_up(p.c, p.target.block());
          for (int64_t c = p.c; c < padded; ++c) {
            for (int64_t i = 0; i < p.h * p.w; ++i) {
              bench.input(0)[x.at(0, c, 0, i)] = std::numeric_limits<float>::quiet_NaN();
            }
          }
        }
        for (int row = 0; row < kConvTranspose2d.rows; ++row) {
          if (row == kConvTranspose2d.reference) continue;
          if (!kConvTranspose2d.fits(row, &p).ok) continue;
          const Difference d = bench.check(row);
          EXPECT_LE(d.relative_to_max, tolerance(kConvTranspose2d.row_name(row)))
              << kConvTranspose2d.row_name(row) << " on " << problem_key(p) << " at "
              << d.worst_index << ": got " << d.got << ", expected " << d.expected << " (seed 5)";
        }
      }
    }
  }
}

ConvTranspose2dProblem square(int64_t c, int64_t size, int64_t k, int32_t kernel, int32_t stride,
                              int32_t pad) {
  return {.n = 1,
          .c = c,
          .h = size,
          .w = size,
          .k = k,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .pad_top = pad,
          .pad_left = pad,
          .pad_bottom = pad,
          .pad_right = pad,
          .epilogue = {.activation = Activation::kRelu, .bias = true}};
}

TEST(ConvTranspose2d, ReferenceOverlapsNeighbours) {
  ConvTranspose2dProblem p{.n = 1,
                           .c = 1,
                           .h = 1,
                           .w = 2,
                           .k = 1,
                           .kernel_h = 1,
                           .kernel_w = 3,
                           .stride_w = 2,
                           .pad_left = 1,
                           .output_padding_w = 1};
  Workbench bench(kConvTranspose2d, &p);
  bench.input(0)[0] = 1;
  bench.input(0)[1] = 10;
  for (int i = 0; i < 3; ++i) bench.constant(0)[i] = static_cast<float>(i + 2);
  bench.run(kConvTranspose2d.reference);
  // Scattered: 2 3 4+20 30 40, then one more by output padding; the first is cut away.
  const float expected[] = {3, 24, 30, 40, 0};
  ASSERT_EQ(bench.output(0).size(), 5u);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(bench.output(0)[i], expected[i]) << i;
}

TEST(ConvTranspose2d, CommonLayers) {
  for (ConvTranspose2dProblem p :
       {square(64, 8, 48, 4, 2, 1), square(32, 9, 32, 2, 2, 0), square(48, 7, 16, 3, 2, 1),
        square(17, 6, 33, 3, 1, 1), square(20, 5, 40, 4, 2, 1), square(16, 4, 16, 5, 3, 2),
        square(19, 15, 21, 4, 2, 1), square(1, 3, 1, 2, 2, 0)}) {
    check_all(p);
    p.epilogue = {.activation = Activation::kSilu, .bias = true, .residual = true};
    check_all(p);
    p.epilogue = {.activation = Activation::kClip,
                  .residual = true,
                  .residual_after_activation = true,
                  .alpha = 0,
                  .beta = 0.25f};
    check_all(p);
  }
}

TEST(ConvTranspose2d, UnevenGeometry) {
  ConvTranspose2dProblem p = square(21, 7, 37, 4, 2, 1);
  p.n = 2;
  p.w = 11;
  p.pad_bottom = 0;
  p.pad_right = 2;
  p.output_padding_h = 1;
  p.epilogue = {
      .activation = Activation::kSigmoid, .residual = true, .residual_after_activation = true};
  check_all(p);
  p = square(32, 5, 64, 3, 2, 1);
  p.groups = 2;
  p.output_padding_h = p.output_padding_w = 1;
  check_all(p);
  p = square(64, 6, 96, 4, 2, 1);
  p.groups = 2;
  check_all(p);
  p = square(16, 5, 20, 3, 3, 0);
  p.dilation_h = 2;
  p.dilation_w = 3;
  p.pad_top = 4;
  check_all(p);
  // A kernel smaller than the stride leaves outputs that see no input at all.
  p = square(16, 4, 16, 1, 2, 0);
  p.output_padding_h = p.output_padding_w = 1;
  check_all(p);
  p = square(18, 1, 18, 4, 2, 1);
  p.w = 9;
  check_all(p);
}

}  // namespace
}  // namespace stretto::kernels
