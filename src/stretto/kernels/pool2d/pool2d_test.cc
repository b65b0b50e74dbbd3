#include "stretto/kernels/pool2d/problem.h"

#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

// Averages of at most 49 numbers in another order, scaled by a rounded reciprocal.
constexpr double kTolerance = 1e-6;

Pool2dProblem square(int64_t c, int64_t size, int32_t kernel, int32_t stride, int32_t pad,
                     int32_t dilation = 1, bool ceil = false) {
  const int64_t span = size + 2 * pad - dilation * (kernel - 1) - 1;
  const int64_t out = (span + (ceil ? stride - 1 : 0)) / stride + 1;
  return {.n = 2,
          .c = c,
          .h = size,
          .w = size,
          .out_h = out,
          .out_w = out,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .dilation_h = dilation,
          .dilation_w = dilation,
          .pad_top = pad,
          .pad_left = pad,
          .pad_bottom = pad,
          .pad_right = pad};
}

void check_variants(Pool2dProblem p, const std::function<void(Workbench&)>& prepare = {}) {
  for (Pooling kind : {Pooling::kMax, Pooling::kAverage}) {
    for (uint8_t include : {0, 1}) {
      for (Layout layout : {Layout::kPlain, Layout::kBlocked}) {
        p.kind = kind;
        p.count_include_pad = include;
        p.layout = layout;
        EXPECT_GT(check_rows(kPool2d, p, kTolerance, prepare), 0);
      }
    }
  }
}

TEST(Pool2d, Geometries) {
  for (int threads : {1, 2, 3}) {
    for (Pool2dProblem p :
         {square(16, 14, 3, 2, 1), square(3, 7, 2, 2, 0), square(17, 9, 3, 1, 1),
          square(8, 7, 7, 1, 0), square(20, 13, 5, 1, 2), square(5, 16, 3, 3, 0),
          square(4, 11, 3, 2, 1, 2), square(16, 14, 3, 2, 0, 1, true), square(1, 1, 1, 1, 0),
          square(6, 37, 3, 2, 1, 1, true), square(6, 5, 3, 4, 1, 1, true),
          square(18, 2, 3, 2, 0, 1, true), square(5, 3, 6, 4, 0, 1, true)}) {
      p.target.threads = threads;
      check_variants(p);
    }
  }
}

TEST(Pool2d, UnevenPaddingAndWidth) {
  Pool2dProblem p = square(19, 12, 3, 2, 1);
  p.w = 23;
  p.out_w = 12;
  p.kernel_w = 4;
  p.pad_left = 2;
  p.pad_bottom = 0;
  check_variants(p);
  p = square(4, 3, 2, 2, 2);  // whole windows in the padding
  check_variants(p);
  p.n = 0;
  check_variants(p);
}

TEST(Pool2d, MaximaOfBytes) {
  for (DType dtype : {DType::kUInt8, DType::kInt8}) {
    for (Pool2dProblem p :
         {square(3, 7, 2, 2, 0), square(17, 9, 3, 1, 1), square(8, 7, 7, 1, 0),
          square(2, 150, 3, 2, 1), square(4, 11, 3, 2, 1, 2), square(2, 131, 3, 1, 1),
          square(1, 1, 1, 1, 0), square(6, 37, 3, 2, 1, 1, true), square(6, 5, 3, 4, 1, 1, true),
          square(4, 3, 2, 2, 2), square(18, 2, 3, 2, 0, 1, true), square(5, 3, 6, 4, 0, 1, true)}) {
      for (int threads : {1, 3}) {
        p.dtype = dtype;
        p.target.threads = threads;
        EXPECT_GT(check_rows(kPool2d, p, 0), 0);
      }
    }
  }
}

TEST(Pool2d, SpecialValues) {
  check_variants(square(7, 12, 3, 2, 1), [](Workbench& b) { sprinkle_specials(b, 0); });
}

}  // namespace
}  // namespace stretto::kernels
