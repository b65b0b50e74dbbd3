// Every row of conv2d against the reference, over shapes that meet every edge.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "stretto/kernels/access.h"
#include "stretto/kernels/conv2d/conv2d_testing.h"
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

// Padding lanes of inputs may hold anything; NaN spreads if a kernel lets them in.
void poison_padding(Workbench& bench, const Conv2dProblem& p) {
  const int64_t block = p.target.block();
  for (size_t i = 0; i < bench.signature().inputs.size(); ++i) {
    const TensorInfo& info = bench.signature().inputs[i];
    if (info.layout != Layout::kBlocked) continue;
    const std::span<float> values = bench.input(static_cast<int>(i));
    const int64_t channels = info.shape[1], blocks = (channels + block - 1) / block;
    const int64_t plane = info.shape[2] * info.shape[3] * block;
    for (int64_t at = 0; at < static_cast<int64_t>(values.size()); ++at) {
      const bool real = at / plane % blocks * block + at % block < channels;
      if (!real) values[at] = std::numeric_limits<float>::quiet_NaN();
    }
  }
}

void check_all(Conv2dProblem p, const char* what) {
  p.target.accuracy = Accuracy::kFast;
  for (Isa isa : usable_isas()) {
    p.target.isa = isa;
    for (Layout x : {Layout::kPlain, Layout::kBlocked}) {
      for (Layout y : {Layout::kPlain, Layout::kBlocked}) {
        p.x_layout = x;
        p.y_layout = y;
        Workbench bench(kConv2d, &p, 7);
        bench.unalign_inputs();
        poison_padding(bench, p);
        for (int row = 0; row < kConv2d.rows; ++row) {
          if (row == kConv2d.reference) continue;
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

// square() with a 3x3 window whose elements lie `dilation` apart.
Conv2dProblem dilated(int64_t c, int64_t size, int64_t k, int32_t dilation, int32_t pad,
                      int32_t groups = 1) {
  Conv2dProblem p = square(c, size, k, 3, 1, pad, groups);
  p.dilation_h = p.dilation_w = dilation;
  return p;
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

// Depthwise kernels of any size: strips and, on columns and where hardly a tap is inside, tiles.
TEST(Conv2d, DepthwiseOfAnySize) {
  struct Shape {
    int64_t n, c, h, w;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation, pad_top, pad_left;
  };
  for (const Shape& s : {Shape{1, 24, 9, 30, 2, 2, 1, 1, 1, 0, 1},
                         {2, 16, 15, 15, 4, 4, 2, 2, 1, 2, 1},
                         {1, 17, 17, 33, 9, 9, 1, 1, 1, 4, 4},
                         {1, 16, 14, 29, 11, 11, 1, 2, 1, 5, 5},
                         {1, 16, 12, 13, 31, 31, 1, 1, 1, 15, 15},
                         {1, 32, 6, 19, 1, 11, 1, 1, 1, 0, 5},
                         {1, 16, 19, 6, 11, 1, 2, 1, 1, 5, 0},
                         {1, 16, 20, 20, 3, 3, 1, 1, 6, 6, 6},
                         {1, 16, 20, 20, 5, 3, 1, 1, 2, 0, 4},
                         {1, 16, 40, 1, 9, 9, 1, 1, 1, 4, 4},
                         {2, 16, 3, 3, 7, 7, 1, 1, 6, 18, 18},
                         {1, 16, 11, 17, 5, 5, 3, 3, 1, 2, 2},
                         {1, 16, 4, 16, 3, 3, 1, 1, 1, 4, 4}}) {
    Conv2dProblem p = square(s.c, s.h, s.c, s.kernel_h, s.stride_h, s.pad_top, s.c);
    p.n = s.n;
    p.w = s.w;
    p.kernel_w = s.kernel_w;
    p.stride_w = s.stride_w;
    p.dilation_h = p.dilation_w = s.dilation;
    p.pad_left = p.pad_right = s.pad_left;
    for (int threads : {1, 2, 3}) {
      p.target.threads = threads;
      p.epilogue = {.activation = threads == 1 ? Activation::kClip : Activation::kSilu,
                    .bias = true,
                    .residual = threads != 2,
                    .residual_after_activation = threads == 3,
                    .beta = 0.5f};
      p.x_layout = p.y_layout = Layout::kBlocked;
      for (Isa isa : usable_isas()) {
        p.target.isa = isa;
        const int row = find_row(kConv2d, "depthwise");
        EXPECT_TRUE(kConv2d.fits(row, &p).ok) << problem_key(p);
      }
      check_all(p, "depthwise of any size");
    }
  }
}

// Signals and maps of up to four output channels: pieces of rows, every stride, windows that hang
// over both ends or see nothing.
TEST(Conv2d, FewOutputsOfRows) {
  struct Shape {
    int64_t n, c, h, w, k;
    int32_t kernel_h, kernel_w, stride_h, stride_w, dilation, pad_top, pad_left;
  };
  for (const Shape& s : {Shape{1, 1, 1, 1700, 1, 1, 28, 1, 2, 1, 0, 13},
                         {2, 1, 1, 1601, 1, 1, 41, 1, 3, 1, 0, 20},
                         {1, 1, 1, 1203, 2, 1, 15, 1, 1, 1, 0, 7},
                         {1, 2, 1, 901, 3, 1, 54, 1, 4, 1, 0, 25},
                         {1, 1, 1, 2300, 4, 1, 81, 1, 6, 1, 0, 40},
                         {1, 3, 9, 20, 4, 3, 3, 2, 2, 2, 3, 3},
                         {1, 4, 5, 3, 1, 5, 9, 1, 1, 1, 2, 4},
                         {1, 1, 1, 4, 2, 1, 11, 1, 5, 3, 0, 33},
                         {3, 2, 40, 7, 1, 7, 1, 1, 1, 1, 3, 0}}) {
    Conv2dProblem p = square(s.c, s.h, s.k, s.kernel_h, s.stride_h, s.pad_top);
    p.n = s.n;
    p.w = s.w;
    p.kernel_w = s.kernel_w;
    p.stride_w = s.stride_w;
    p.dilation_h = s.kernel_h > 1 ? s.dilation : 1;
    p.dilation_w = s.dilation;
    p.pad_left = p.pad_right = s.pad_left;
    for (int threads : {1, 2, 3}) {
      p.target.threads = threads;
      p.epilogue = {.activation = threads == 1 ? Activation::kNone : Activation::kSilu,
                    .bias = threads != 1,
                    .residual = threads == 3};
      p.x_layout = p.y_layout = Layout::kPlain;
      EXPECT_TRUE(kConv2d.fits(find_row(kConv2d, "row_taps"), &p).ok) << problem_key(p);
      check_all(p, "few outputs");
    }
  }
}

// Groups that begin and end within a block of channels.
TEST(Conv2d, GroupsThatShareBlocks) {
  struct Shape {
    int64_t n, c, h, w, k;
    int32_t kernel, stride, groups;
  };
  for (const Shape& s : {Shape{1, 72, 9, 17, 72, 3, 1, 3},
                         {2, 40, 8, 7, 40, 3, 2, 5},
                         {1, 168, 7, 7, 168, 3, 1, 7},
                         {1, 60, 6, 9, 30, 3, 1, 6},
                         {1, 24, 5, 5, 72, 1, 1, 2},
                         {2, 12, 9, 8, 24, 5, 1, 12},
                         {1, 34, 4, 30, 51, 3, 2, 17}}) {
    Conv2dProblem p = square(s.c, s.h, s.k, s.kernel, s.stride, s.kernel / 2, s.groups);
    p.n = s.n;
    p.w = s.w;
    for (int threads : {1, 2, 3}) {
      p.target.threads = threads;
      p.epilogue = {.activation = threads == 2 ? Activation::kRelu : Activation::kSilu,
                    .bias = true,
                    .residual = threads != 2,
                    .residual_after_activation = threads == 3};
      check_all(p, "shared blocks");
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
  check_all(dilated(16, 12, 32, 2, 2), "dilated");
  p = square(16, 9, 16, 3, 1, 1);
  p.kernel_w = 1;
  p.pad_left = p.pad_right = 0;
  p.epilogue = {.activation = Activation::kSilu, .bias = true};
  check_all(p, "3x1 kernel, silu");
  p = square(16, 6, 16, 3, 3, 0);
  p.epilogue = {.activation = Activation::kClip,
                .residual = true,
                .residual_after_activation = true,
                .alpha = 0,
                .beta = 0.25f};
  check_all(p, "stride 3, clip before residual");
}

// Tiles that hang over every edge, channels that are no multiple of any block, uneven thread
// shares.
TEST(Conv2d, WinogradEdges) {
  struct Shape {
    int64_t n, c, h, w, k;
    int32_t stride, top, left, bottom, right, groups;
  };
  for (const Shape& s : {Shape{1, 16, 1, 1, 16, 1, 1, 1, 1, 1, 1},
                         {2, 19, 5, 9, 21, 1, 0, 1, 2, 0, 1},
                         {1, 37, 13, 6, 50, 1, 2, 2, 2, 2, 1},
                         {3, 64, 7, 7, 80, 1, 1, 1, 1, 1, 1},
                         {1, 64, 10, 21, 96, 1, 1, 0, 0, 1, 2},
                         {1, 33, 40, 30, 17, 1, 0, 0, 0, 0, 1},
                         {1, 18, 2, 3, 35, 2, 1, 1, 1, 1, 1},
                         {2, 19, 11, 18, 50, 2, 0, 2, 1, 0, 1},
                         {1, 64, 14, 9, 96, 2, 1, 1, 0, 2, 2},
                         {1, 33, 35, 34, 17, 2, 2, 2, 2, 2, 1}}) {
    Conv2dProblem p{.n = s.n,
                    .c = s.c,
                    .h = s.h,
                    .w = s.w,
                    .k = s.k,
                    .kernel_h = 3,
                    .kernel_w = 3,
                    .stride_h = s.stride,
                    .stride_w = s.stride,
                    .pad_top = s.top,
                    .pad_left = s.left,
                    .pad_bottom = s.bottom,
                    .pad_right = s.right,
                    .groups = s.groups};
    for (int threads : {1, 2, 3}) {
      p.target.threads = threads;
      p.epilogue = {.activation = Activation::kSilu,
                    .bias = true,
                    .residual = threads != 2,
                    .residual_after_activation = threads == 3};
      check_all(p, "edges");
    }
  }
}

// Odd and even numbers of pixels, several chunks of them, padding lanes in the last block of
// outputs, and results over a residual, which the middle pixel of an odd number must not meet
// twice.
TEST(Conv2d, StrassenEdges) {
  int checked = 0;
  for (Conv2dProblem p :
       {square(32, 1, 32, 1, 1, 0), square(32, 7, 32, 1, 1, 0), square(64, 14, 90, 1, 1, 0),
        square(96, 7, 250, 1, 2, 0), square(32, 6, 26, 1, 3, 0), square(1024, 14, 64, 1, 1, 0)}) {
    if (p.h == 1) p.w = 2;
    for (const int threads : {1, 2, 3}) {
      p.n = threads == 2 ? 2 : 1;
      p.target.threads = threads;
      p.epilogue = {.activation = threads == 1 ? Activation::kRelu : Activation::kSilu,
                    .bias = true,
                    .residual = threads != 2,
                    .residual_after_activation = threads == 3};
      check_all(p, "Strassen");
      p.x_layout = p.y_layout = Layout::kBlocked;
      for (int row = 0; row < kConv2d.rows; ++row) {
        checked += kConv2d.row_name(row) == "strassen_1x1" && kConv2d.fits(row, &p).ok;
      }
    }
  }
  // Vectors of four values make an odd number of blocks of the three odd numbers of outputs.
  EXPECT_GE(checked, 9);
}

// Root mean square of the error of a row, relative to that of the results: the reference sums in
// double precision.
double rounding_error(const Conv2dProblem& p, std::string_view row) {
  Workbench bench(kConv2d, &p, 5);
  bench.run(kConv2d.reference);
  const std::vector<float> exact(bench.output(0).begin(), bench.output(0).end());
  bench.run(find_row(kConv2d, row));
  double error = 0, all = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(bench.output(0)[i] - exact[i], 2);
    all += std::pow(exact[i], 2);
  }
  return std::sqrt(error / all);
}

// The classes of accuracy rest on how much the tile sizes round: docs/design/speed.md has the
// figures. On 64 channels they are 2.5e-7, 1.6e-6 and 3.3e-6; channels add about as their root.
TEST(Conv2d, LargerWinogradTilesRoundMore) {
  for (const Isa isa : usable_isas()) {
    Conv2dProblem p = square(64, 24, 64, 3, 1, 1);
    p.target = {.isa = isa, .accuracy = Accuracy::kFast};
    p.x_layout = p.y_layout = Layout::kBlocked;
    const double f2 = rounding_error(p, "winograd_f2x2"), f4 = rounding_error(p, "winograd_f4x4");
    const double f6 = rounding_error(p, "winograd_f6x6");
    EXPECT_LT(f2, 4e-7) << isa_name(isa) << " (seed 5)";
    EXPECT_LT(f4, 2.5e-6) << isa_name(isa) << " (seed 5)";
    EXPECT_LT(f6, 5e-6) << isa_name(isa) << " (seed 5)";
    EXPECT_LT(f2, f4);
    EXPECT_LT(f4, f6);
  }
}

TEST(Conv2d, EveryActivation) {
  for (const Activation activation : activations()) {
    for (int32_t stride : {1, 2}) {
      Conv2dProblem p = square(16, 6, 24, 3, stride, 1);
      p.epilogue = {.activation = activation,
                    .bias = true,
                    .residual = true,
                    .residual_after_activation = static_cast<int>(activation) % 2 != 0,
                    .alpha = 0.2f,
                    .beta = 0.6f};
      check_all(p, "activation");
    }
  }
}

// Padding lanes of a blocked input may hold anything, NaN included.
TEST(Conv2d, PaddingLanesDoNotMatter) {
  for (Isa isa : usable_isas()) {
    for (int32_t kernel : {1, 3}) {
      for (int32_t stride : {1, 2}) {
        for (int32_t groups : {1, 21}) {
          Conv2dProblem p = square(21, 9, 42, kernel, stride, kernel / 2, groups);
          p.target = {.isa = isa, .accuracy = Accuracy::kFast, .threads = 2};
          p.x_layout = p.y_layout = Layout::kBlocked;
          p.epilogue = {.activation = Activation::kRelu, .bias = true};
          Workbench bench(kConv2d, &p, 3);
          bench.unalign_inputs();
          const Access x({p.n, p.c, p.h, p.w}, p.x_layout, p.target.block());
          const int64_t padded = round_up(p.c, p.target.block());
          for (int64_t c = p.c; c < padded; ++c) {
            for (int64_t i = 0; i < p.h * p.w; ++i) {
              bench.input(0)[x.at(0, c, 0, i)] = std::numeric_limits<float>::quiet_NaN();
            }
          }
          for (int row = 0; row < kConv2d.rows; ++row) {
            if (row == kConv2d.reference) continue;
            if (!kConv2d.fits(row, &p).ok) continue;
            const std::string_view name = kConv2d.row_name(row);
            EXPECT_LE(bench.check(row).relative_to_max, tolerance(name))
                << name << " on " << problem_key(p) << " (seed 3)";
          }
        }
      }
    }
  }
}

TEST(Conv2d, ChannelsBesideTheBlock) {
  for (int threads : {1, 3}) {
    for (Conv2dProblem p :
         {square(13, 6, 21, 1, 1, 0), square(35, 5, 50, 1, 1, 0), square(19, 9, 70, 3, 1, 1),
          square(33, 7, 5, 3, 2, 1), square(21, 10, 21, 3, 1, 1, 21),
          square(37, 9, 37, 5, 2, 2, 37), square(2, 20, 18, 7, 2, 3), square(4, 12, 35, 3, 1, 1),
          square(40, 6, 56, 3, 1, 1, 8), square(20, 7, 20, 3, 1, 1, 5),
          square(24, 9, 24, 3, 2, 1, 3), square(18, 6, 18, 3, 1, 1, 9),
          square(12, 6, 24, 3, 1, 1, 12), square(12, 6, 24, 3, 1, 1, 4)}) {
      p.target.threads = threads;
      p.epilogue = {.activation = Activation::kHardSwish, .bias = true, .residual = true};
      check_all(p, "ragged channels");
    }
  }
}

TEST(Conv2d, ManyTilesAndThreads) {
  for (int threads : {2, 3}) {
    for (Conv2dProblem p :
         {square(32, 30, 32, 3, 1, 1, 32), square(16, 31, 16, 5, 2, 2, 16),
          square(16, 23, 16, 7, 1, 3, 16), square(32, 31, 32, 3, 1, 1, 8),
          square(16, 1, 90, 1, 1, 0), square(32, 29, 32, 3, 2, 1, 8), square(64, 9, 64, 3, 1, 1, 4),
          square(3, 61, 32, 7, 2, 3), square(32, 3, 160, 1, 1, 0), square(64, 29, 80, 1, 2, 0),
          square(32, 21, 32, 5, 1, 2)}) {
      p.target.threads = threads;
      p.n = threads == 2 ? 2 : 1;
      p.epilogue = {.activation = Activation::kSilu,
                    .bias = true,
                    .residual = true,
                    .residual_after_activation = true};
      check_all(p, "many tiles");
    }
  }
}

// Winograd by phases, and tiles that skip taps outside the map.
TEST(Conv2d, Dilated) {
  Conv2dProblem p = dilated(32, 13, 40, 2, 2);
  p.n = 2;
  p.epilogue = {.activation = Activation::kRelu, .bias = true, .residual = true};
  check_all(p, "two phases of uneven maps");
  p.epilogue.residual_after_activation = true;
  p.dilation_h = 3;
  p.pad_top = 1;
  p.pad_bottom = 4;
  p.pad_left = 5;
  p.pad_right = 0;
  check_all(p, "uneven dilation and padding");
  check_all(dilated(16, 9, 24, 7, 7), "few positions see every tap");
  check_all(dilated(32, 6, 32, 12, 12, 2), "only the middle tap is inside, grouped");
  check_all(dilated(16, 20, 16, 4, 0), "without padding");
}

TEST(Conv2d, KernelsAsLargeAsTheMap) {
  check_all(square(16, 3, 16, 7, 1, 3), "7x7 on 3x3");
  check_all(square(16, 3, 16, 7, 1, 3, 16), "depthwise 7x7 on 3x3");
  check_all(square(16, 2, 32, 5, 2, 4), "5x5 on 2x2, wide border");
  check_all(square(16, 2, 16, 3, 1, 4, 16), "depthwise, border wider than the kernel");
  check_all(square(3, 4, 16, 7, 2, 5), "stem, wide border");
  check_all(square(64, 3, 64, 3, 1, 2, 16), "grouped, wide border");
  Conv2dProblem p = square(20, 9, 20, 3, 1, 3, 20);
  p.dilation_h = 3;
  p.dilation_w = 2;
  check_all(p, "depthwise dilated");
  check_all(dilated(3, 17, 20, 2, 2), "stem dilated");
  p = square(32, 1, 24, 1, 1, 0);
  p.n = 9;
  check_all(p, "a batch of 1x1 maps");
  p = square(16, 1, 16, 1, 1, 0);
  p.w = 50;
  p.kernel_w = 9;
  p.pad_left = 8;
  check_all(p, "causal 1-D");
}

TEST(Conv2d, LongWindows) {
  Conv2dProblem p = square(1, 30, 20, 11, 2, 5);
  p.kernel_h = 41;
  p.pad_top = p.pad_bottom = 20;
  check_all(p, "first layer over a spectrogram");
  p = square(1, 1, 40, 1, 1, 0);
  p.w = 700;
  p.kernel_w = 250;
  p.stride_w = 50;
  check_all(p, "frames of a signal");
  p.pad_left = p.pad_right = 125;
  check_all(p, "frames of a padded signal");
}

TEST(Conv2d, Activations) {
  for (const Activation activation : activations()) {
    for (bool after : {false, true}) {
      for (Conv2dProblem p : {square(16, 6, 24, 1, 1, 0), square(16, 6, 24, 3, 1, 1),
                              square(24, 6, 24, 3, 1, 1, 24), square(32, 6, 32, 3, 1, 1, 8)}) {
        p.epilogue = {.activation = activation,
                      .bias = true,
                      .residual = true,
                      .residual_after_activation = after,
                      .alpha = 0.2f,
                      .beta = 0.6f};
        check_all(p, "activation");
      }
    }
  }
}

}  // namespace
}  // namespace stretto::kernels
