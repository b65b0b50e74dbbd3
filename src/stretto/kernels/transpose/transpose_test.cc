#include "stretto/kernels/transpose/problem.h"

#include <algorithm>
#include <numeric>

#include "stretto/base/error.h"
#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

TEST(Transpose, EveryPermutationTypeAndThreadCount) {
  int checked = 0;
  for (const Shape& shape :
       {Shape{5}, Shape{35, 70}, Shape{2, 17, 20}, Shape{21, 34, 2}, Shape{3, 18, 5, 16},
        Shape{2, 3, 2, 3, 4}, Shape{1, 4, 1, 9}, Shape{3, 0, 2}}) {
    std::vector<int64_t> perm(shape.size());
    std::iota(perm.begin(), perm.end(), 0);
    do {
      for (DType dtype : {DType::kFloat32, DType::kUInt8, DType::kInt16, DType::kInt64}) {
        const Target target{.threads = 1 + checked++ % 3};
        const TransposeProblem p = transpose_problem(target, shape, perm, dtype);
        EXPECT_GT(check_rows(kTranspose, p, 0), 0);  // data movement is exact
      }
    } while (std::next_permutation(perm.begin(), perm.end()));
  }
}

TEST(Transpose, MergesAxes) {
  const auto problem = [](const Shape& shape, std::vector<int64_t> perm) {
    return transpose_problem({}, shape, perm, DType::kFloat32);
  };
  EXPECT_EQ(problem({2, 3, 4, 5}, {0, 1, 2, 3}).rank, 1);
  EXPECT_EQ(problem({1, 128, 12, 64}, {0, 2, 1, 3}).rank, 3);
  EXPECT_EQ(problem({2, 3, 4, 5}, {2, 3, 0, 1}).rank, 2);
  EXPECT_EQ(problem({2, 3, 1, 5}, {1, 3, 2, 0}).rank, 2);
  EXPECT_THROW(problem({2, 3}, {0, 0}), InvalidArgument);
  check_rows(kTranspose, problem({2, 3, 4, 5, 2, 3}, {5, 3, 1, 0, 2, 4}), 0);
}

}  // namespace
}  // namespace stretto::kernels
