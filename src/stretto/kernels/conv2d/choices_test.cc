// Which rows of conv2d take a problem, and which one is taken without measuring.
#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "stretto/kernels/conv2d/conv2d_testing.h"
#include "stretto/kernels/workbench.h"

namespace stretto::kernels {
namespace {

// What made resamplers slower than elsewhere: 16 channels were computed for one.
TEST(Conv2d, ResamplersTakeRowTaps) {
  for (const auto& [taps, stride] : {std::pair{28, 2}, {41, 3}, {54, 4}}) {
    for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
      Conv2dProblem p{.target = {.isa = isa}, .w = 16000, .kernel_w = taps, .stride_w = stride};
      p.pad_left = p.pad_right = taps / 2;
      EXPECT_EQ(default_row(kConv2d, &p), find_row(kConv2d, "row_taps"));
      const double plain = kConv2d.fits(find_row(kConv2d, "row_taps"), &p).expected;
      p.y_layout = Layout::kBlocked;
      EXPECT_GT(plain, 3 * kConv2d.fits(find_row(kConv2d, "direct_stem"), &p).expected);
    }
  }
}

TEST(Conv2d, DirectTakesGroupsThatShareBlocks) {
  for (Isa isa : usable_isas()) {
    Conv2dProblem p = square(60, 9, 60, 3, 1, 1, 5);
    p.target.isa = isa;
    p.x_layout = p.y_layout = Layout::kBlocked;
    EXPECT_EQ(kConv2d.row_name(default_row(kConv2d, &p)), "direct") << isa_name(isa);
  }
}

TEST(Conv2d, AccuracyDecidesWhichWinogradTilesFit) {
  Conv2dProblem p = square(64, 24, 64, 3, 1, 1);
  p.x_layout = p.y_layout = Layout::kBlocked;
  const auto fitting = [&](Accuracy accuracy) {
    p.target.accuracy = accuracy;
    int count = 0;
    for (const std::string_view row : {"winograd_f2x2", "winograd_f4x4", "winograd_f6x6"}) {
      const Fit fit = kConv2d.fits(find_row(kConv2d, row), &p);
      if (fit.ok)
        ++count;
      else
        EXPECT_NE(fit.reason.find(accuracy_name(accuracy)), std::string::npos) << fit.reason;
    }
    return count;
  };
  EXPECT_EQ(fitting(Accuracy::kStrict), 1);
  EXPECT_EQ(fitting(Accuracy::kDefault), 2);
  EXPECT_EQ(fitting(Accuracy::kFast), 3);
}

// What has to give the same integers in any order is not transformed.
TEST(Conv2d, NoRowThatRoundsTakesExactSums) {
  for (const int32_t kernel : {1, 3}) {
    for (const int32_t stride : {1, 2}) {
      Conv2dProblem p = square(64, 24, 64, kernel, stride, kernel / 2);
      p.target.accuracy = Accuracy::kFast;
      p.x_layout = p.y_layout = Layout::kBlocked;
      const auto transforming = [&] {
        int count = 0;
        for (int row = 0; row < kConv2d.rows; ++row) {
          const std::string_view name = kConv2d.row_name(row);
          if (!name.starts_with("winograd") && !name.starts_with("strassen")) continue;
          count += kConv2d.fits(row, &p).ok ? 1 : 0;
        }
        return count;
      };
      EXPECT_GT(transforming(), 0);
      p.exact = 1;
      EXPECT_EQ(transforming(), 0);
    }
  }
}

}  // namespace
}  // namespace stretto::kernels
