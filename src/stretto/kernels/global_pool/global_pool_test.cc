#include "stretto/kernels/global_pool/problem.h"

#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

// Sums of up to 3136 terms in 64 partial sums: a few ulp.
constexpr double kTolerance = 2e-6;

TEST(GlobalPool, SizesLayoutsThreads) {
  for (int threads : {1, 2, 3}) {
    for (int64_t c : {1, 5, 16, 33}) {
      for (int64_t size : {0, 1, 3, 7, 56}) {
        for (Pooling kind : {Pooling::kAverage, Pooling::kMax}) {
          for (Layout layout : {Layout::kPlain, Layout::kBlocked}) {
            GlobalPoolProblem p{
                .n = 2, .c = c, .h = size, .w = size + size / 2, .kind = kind, .layout = layout};
            p.target.threads = threads;
            EXPECT_GT(check_rows(kGlobalPool, p, kTolerance), 0);
            if (size == 7) {
              check_rows(kGlobalPool, p, kTolerance, [](Workbench& b) { sprinkle_specials(b, 0); });
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto::kernels
