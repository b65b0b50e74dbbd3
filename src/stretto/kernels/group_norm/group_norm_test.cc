#include "stretto/kernels/group_norm/problem.h"

#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

// Moments of up to 5000 numbers in 64 partial sums, then two roundings.
constexpr double kTolerance = 5e-6;

TEST(GroupNorm, GroupsSizesThreads) {
  for (int threads : {1, 2, 3}) {
    for (int32_t groups : {1, 4, 12}) {
      for (int64_t hw : {1, 7, 16, 49, 400}) {
        for (uint8_t affine : {0, 1}) {
          GroupNormProblem p{.n = 2,
                             .c = 12,
                             .hw = hw,
                             .groups = groups,
                             .epsilon = 1e-3f,
                             .scale = affine,
                             .bias = affine};
          p.target.threads = threads;
          EXPECT_GT(check_rows(kGroupNorm, p, kTolerance), 0);
        }
      }
    }
  }
  check_rows(kGroupNorm, GroupNormProblem{.n = 0, .c = 4, .hw = 9}, kTolerance);
}

TEST(GroupNorm, SpecialValues) {
  const GroupNormProblem p{.n = 2, .c = 6, .hw = 30, .groups = 3};
  check_rows(kGroupNorm, p, kTolerance, [](Workbench& b) {
    b.input(0)[5] = INFINITY;
    b.input(0)[100] = NAN;
  });
}

}  // namespace
}  // namespace stretto::kernels
