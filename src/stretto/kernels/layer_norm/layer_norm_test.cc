#include "stretto/kernels/layer_norm/problem.h"

#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

// Moments of up to 3072 numbers in 64 partial sums, then two roundings.
constexpr double kTolerance = 3e-6;

TEST(LayerNorm, EveryOptionAndSize) {
  for (int threads : {1, 2, 3}) {
    for (int64_t n : {1, 3, 16, 17, 64, 255, 768}) {
      for (int options = 0; options < 32; ++options) {
        const auto bit = [&](int i) { return static_cast<uint8_t>(options >> i & 1); };
        LayerNormProblem p{.m = 7,
                           .n = n,
                           .epsilon = 1e-3f,
                           .scale = bit(0),
                           .bias = bit(1),
                           .residual = bit(2),
                           .sum_output = bit(3),
                           .rms = bit(4)};
        p.target.threads = threads;
        EXPECT_GT(check_rows(kLayerNorm, p, kTolerance), 0);
      }
    }
  }
}

TEST(LayerNorm, EmptyLargeMeanAndSpecialValues) {
  check_rows(kLayerNorm, LayerNormProblem{.m = 0, .n = 5}, kTolerance);
  const LayerNormProblem p{.m = 9, .n = 50};
  // A mean 100 times the spread costs two of seven digits, but not all of them.
  check_rows(kLayerNorm, p, 1e-4, [](Workbench& b) {
    for (float& x : b.input(0)) x += 100;
  });
  check_rows(kLayerNorm, p, kTolerance, [](Workbench& b) {
    for (size_t i = 0; i < 50; ++i) b.input(0)[i] = i == 7 ? INFINITY : 1.0f;
    b.input(0)[123] = NAN;
  });
}

}  // namespace
}  // namespace stretto::kernels
