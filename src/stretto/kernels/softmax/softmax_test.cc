#include "stretto/kernels/softmax/problem.h"

#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

// The exponential is good to 4 ulp and the sum of at most 1000 terms to a few more.
constexpr double kTolerance = 2e-6;

TEST(Softmax, ShapesAndThreads) {
  int checked = 0;
  for (int threads : {1, 2, 3}) {
    for (int32_t log : {0, 1}) {
      for (int64_t axis : {0, 1, 2, 7, 16, 33, 197, 1000}) {
        for (int64_t inner : {1, 2, 5, 16, 37}) {
          for (int64_t outer : {0, 1, 5}) {
            SoftmaxProblem p{.outer = outer, .axis = axis, .inner = inner, .log = log};
            p.target.threads = threads;
            checked += check_rows(kSoftmax, p, kTolerance);
          }
        }
      }
    }
  }
  EXPECT_GT(checked, 0);
}

TEST(Softmax, LargeAndSpecialValues) {
  for (int64_t inner : {1, 3}) {
    for (int32_t log : {0, 1}) {
      const SoftmaxProblem p{.outer = 40, .axis = 21, .inner = inner, .log = log};
      check_rows(kSoftmax, p, kTolerance, [](Workbench& b) {
        for (float& x : b.input(0)) x *= 80;
      });
      check_rows(kSoftmax, p, kTolerance, [](Workbench& b) {
        sprinkle_specials(b, 0);
        for (size_t i = 0; i < 21; ++i) b.input(0)[i] = -std::numeric_limits<float>::infinity();
      });
    }
  }
}

}  // namespace
}  // namespace stretto::kernels
