#include "stretto/kernels/reorder/problem.h"

#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

TEST(Reorder, BothDirectionsAllEdges) {
  int checked = 0;
  for (int threads : {1, 2, 3}) {
    for (int64_t n : {1, 2}) {
      for (int64_t c : {1, 3, 4, 8, 15, 16, 17, 32, 40}) {
        for (int64_t size : {0, 1, 2, 3, 4, 5, 7, 17}) {
          for (bool forward : {true, false}) {
            ReorderProblem p{.n = n, .c = c, .h = size, .w = size > 1 ? size - 1 : 1};
            p.target.threads = threads;
            if (!forward) std::swap(p.from, p.to);
            // Data movement is exact.
            checked += check_rows(kReorder, p, 0);
          }
        }
      }
    }
  }
  EXPECT_GT(checked, 0);
}

TEST(Reorder, SpecialValuesSurvive) {
  ReorderProblem p{.n = 1, .c = 19, .h = 9, .w = 33};
  check_rows(kReorder, p, 0, [](Workbench& b) { sprinkle_specials(b, 0); });
}

TEST(Reorder, LargePlaneInChunks) {
  ReorderProblem p{.n = 1, .c = 33, .h = 41, .w = 29};
  p.target.threads = 2;
  for (int i = 0; i < 2; ++i, std::swap(p.from, p.to)) check_rows(kReorder, p, 0);
}

}  // namespace
}  // namespace stretto::kernels
