#include "stretto/kernels/reduce/problem.h"

#include "stretto/base/error.h"
#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

// Sums of up to 2000 terms in another order. A plain sum of numbers around 0 cancels, and the
// largest output is then small compared with its terms.
constexpr double kTolerance = 1e-5;

TEST(Reduce, EveryKindShapeAndThreadCount) {
  const std::vector<std::pair<Shape, std::vector<int64_t>>> cases{{{5, 100}, {1}},
                                                                  {{5, 100}, {0}},
                                                                  {{3, 7, 70}, {1}},
                                                                  {{3, 7, 70}, {0, 2}},
                                                                  {{4, 5, 6, 7}, {1, 3}},
                                                                  {{4, 5, 6, 7}, {0, 2}},
                                                                  {{2000}, {0}},
                                                                  {{17}, {}},
                                                                  {{50, 2}, {1}},
                                                                  {{3, 17, 3}, {2}},
                                                                  {{100, 4}, {1}},
                                                                  {{5, 7, 2}, {0, 2}},
                                                                  {{3, 4, 5, 6, 2, 3}, {0, 2, 4}},
                                                                  {{2, 3, 1, 4, 40}, {-1, 2, 0}},
                                                                  {{0, 5}, {0}},
                                                                  {{0, 5}, {1}},
                                                                  {{5, 0}, {1}},
                                                                  {{1}, {0}},
                                                                  {{6, 1000}, {0}}};
  for (int threads : {1, 2, 3}) {
    for (int kind = 0; kind < 8; ++kind) {
      for (const auto& [shape, axes] : cases) {
        const ReduceProblem p =
            reduce_problem({.threads = threads}, shape, axes, static_cast<Reduction>(kind));
        EXPECT_GT(check_rows(kReduce, p, kTolerance), 0);
      }
    }
  }
}

TEST(Reduce, IntegersAreExact) {
  const std::vector<std::pair<Shape, std::vector<int64_t>>> cases{
      {{5, 100}, {1}}, {{5, 100}, {0}},      {{3, 7, 70}, {0, 2}}, {{4, 5, 6, 7}, {1, 3}},
      {{2000}, {0}},   {{17}, {}},           {{100, 3}, {1}},      {{0, 5}, {0}},
      {{5, 0}, {1}},   {{2, 3, 4, 33}, {2}}, {{6, 1000}, {0}}};
  for (const DType dtype : {DType::kInt32, DType::kInt64}) {
    for (const Reduction kind :
         {Reduction::kSum, Reduction::kMax, Reduction::kMin, Reduction::kProd}) {
      for (int threads : {1, 3}) {
        for (const auto& [shape, axes] : cases) {
          const ReduceProblem p = reduce_problem({.threads = threads}, shape, axes, kind, dtype);
          EXPECT_GT(check_rows(kReduce, p, 0), 0);
        }
      }
    }
  }
  EXPECT_FALSE(can_reduce(Reduction::kMean, DType::kInt32));
  EXPECT_FALSE(can_reduce(Reduction::kSum, DType::kInt8));
}

TEST(Reduce, SpecialValues) {
  for (int kind = 0; kind < 8; ++kind) {
    for (int64_t axis : {0, 1}) {
      const ReduceProblem p =
          reduce_problem({}, Shape{30, 41}, std::vector{axis}, static_cast<Reduction>(kind));
      check_rows(kReduce, p, kTolerance, [](Workbench& b) {
        b.input(0)[50] = NAN;
        b.input(0)[140] = INFINITY;
        b.input(0)[300] = -INFINITY;
      });
    }
  }
}

TEST(Reduce, MergesAxes) {
  const ReduceProblem p =
      reduce_problem({}, Shape{2, 3, 4, 5}, std::vector<int64_t>{2, 3}, Reduction::kMean);
  EXPECT_EQ(p.rank, 2);
  EXPECT_EQ(p.dims[1], 20);
  EXPECT_THROW(reduce_problem({}, Shape{2}, std::vector<int64_t>{1}, Reduction::kSum),
               InvalidArgument);
}

}  // namespace
}  // namespace stretto::kernels
