#include "stretto/kernels/copy_region/problem.h"

#include <algorithm>
#include <ranges>

#include "stretto/base/error.h"
#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kInt64, DType::kBool, DType::kFloat16};

// Data movement is exact.
void check(const CopyRegionProblem& p) { EXPECT_GT(check_rows(kCopyRegion, p, 0), 0); }

TEST(CopyRegion, Concat) {
  for (int threads : {1, 2, 3}) {
    for (DType dtype : kTypes) {
      for (int64_t axis = 0; axis < 3; ++axis) {
        std::vector<Shape> inputs{{3, 5, 7}, {3, 5, 7}, {3, 5, 7}};
        inputs[1][axis] = 1;
        inputs[2][axis] = 0;
        check(concat_problem({.threads = threads}, dtype, inputs, axis));
      }
    }
    check(concat_problem({.threads = threads}, DType::kFloat32,
                         std::vector<Shape>{{1, 40, 20, 20}, {1, 24, 20, 20}}, 1));
  }
  EXPECT_EQ(
      concat_problem({}, DType::kFloat32, std::vector<Shape>{{2, 3, 4, 5}, {2, 1, 4, 5}}, 1).rank,
      2);
  EXPECT_THROW(concat_problem({}, DType::kFloat32, std::vector<Shape>(33, Shape{1}), 0),
               Unsupported);
}

// More rows than are written at once, of runs of one element and of several.
TEST(CopyRegion, StackedAlongTheLastAxis) {
  for (int threads : {1, 3}) {
    for (DType dtype : kTypes) {
      const std::vector<Shape> inputs{{300, 3, 1}, {300, 3, 2}, {300, 3, 9}, {300, 3, 1}};
      check(concat_problem({.threads = threads}, dtype, inputs, 2));
      check(slice_problem({.threads = threads}, dtype, {300, 7, 9}, std::vector<int64_t>{0, 1, 8},
                          std::vector<int64_t>{1, 2, -3}, {300, 3, 3}));
    }
  }
}

TEST(CopyRegion, SliceWithSteps) {
  for (int threads : {1, 2, 3}) {
    for (DType dtype : kTypes) {
      const Shape x{6, 9, 11};
      const auto slice = [&](std::vector<int64_t> start, std::vector<int64_t> step, Shape y) {
        check(slice_problem({.threads = threads}, dtype, x, start, step, y));
      };
      slice({0, 0, 0}, {1, 1, 1}, {6, 9, 11});
      slice({1, 2, 3}, {1, 1, 1}, {4, 5, 6});
      slice({0, 8, 10}, {2, -2, -1}, {3, 5, 11});
      slice({5, 0, 0}, {-5, 3, 4}, {2, 3, 3});
      slice({0, 0, 0}, {1, 1, 1}, {6, 0, 11});
    }
  }
}

TEST(CopyRegion, PadExpandAndScalars) {
  for (int threads : {1, 2, 3}) {
    for (DType dtype : kTypes) {
      const Target target{.threads = threads};
      const Shape x{2, 5, 7};
      check(pad_problem(target, dtype, x, std::vector<int64_t>{0, 1, 2}, {2, 8, 10}, 1));
      check(pad_problem(target, dtype, x, std::vector<int64_t>{1, -2, 0}, {4, 3, 7}, 0));
      check(pad_problem(target, dtype, x, std::vector<int64_t>{0, 0, -3}, {2, 5, 2}, 1));
      check(pad_problem(target, dtype, x, std::vector<int64_t>{0, -6, 0}, {2, 3, 7}, 1));
      check(expand_problem(target, dtype, {5, 1}, {4, 5, 6}));
      check(expand_problem(target, dtype, {}, {3, 3}));
      check(expand_problem(target, dtype, {1, 1, 1000}, {2, 3, 1000}));
    }
  }
  EXPECT_THROW(expand_problem({}, DType::kFloat32, {3}, {4}), InvalidArgument);
  check(slice_problem({}, DType::kFloat32, {}, {}, {}, {}));
}

TEST(CopyRegion, WritingKeepsTheRest) {
  const CopyRegionProblem p = write_problem({.threads = 1}, DType::kFloat32, {2, 1, 3},
                                            std::vector<int64_t>{0, 2, 0}, {2, 4, 3});
  std::vector<float> x{1, 2, 3, 4, 5, 6}, expected(24, -1);
  for (int i = 0; i < 6; ++i) {
    expected[static_cast<size_t>(i / 3 * 12 + 6 + i % 3)] = static_cast<float>(i + 1);
  }
  for (int row = 0; row < kCopyRegion.rows; ++row) {
    std::vector<float> y(24, -1);
    const void* from[] = {x.data()};
    void* to[] = {y.data()};
    run_shares(kCopyRegion, row, &p, {.inputs = from, .outputs = to}, {.count = 1});
    EXPECT_EQ(y, expected) << kCopyRegion.row_name(row);
  }
}

TEST(CopyRegion, Extend) {
  const auto values = [](std::vector<int64_t> before, const Shape& x, const Shape& y, Extension m) {
    const CopyRegionProblem p = extend_problem({}, DType::kFloat32, x, before, y, m);
    Workbench bench(kCopyRegion, &p);
    bench.unalign_inputs();
    std::ranges::copy(std::views::iota(0, static_cast<int>(element_count(x))),
                      bench.input(0).begin());
    bench.run(0);
    return std::vector<float>(bench.output(0).begin(), bench.output(0).begin() + element_count(y));
  };
  using Row = std::vector<float>;
  EXPECT_EQ(values({2}, {4}, {8}, Extension::kReflect), (Row{2, 1, 0, 1, 2, 3, 2, 1}));
  EXPECT_EQ(values({2}, {4}, {8}, Extension::kEdge), (Row{0, 0, 0, 1, 2, 3, 3, 3}));
  EXPECT_EQ(values({2}, {4}, {8}, Extension::kWrap), (Row{2, 3, 0, 1, 2, 3, 0, 1}));
  EXPECT_EQ(values({-2}, {4}, {4}, Extension::kReflect), (Row{2, 3, 2, 1}));
  EXPECT_EQ(values({-5}, {4}, {1}, Extension::kReflect), (Row{1})) << "all of x is cut off";
  EXPECT_EQ(values({1, 0}, {2, 2}, {3, 3}, Extension::kEdge), (Row{0, 1, 1, 0, 1, 1, 2, 3, 3}));
  EXPECT_THROW(values({4}, {4}, {8}, Extension::kReflect), Unsupported);
  for (int threads : {1, 2, 3}) {
    const Target target{.threads = threads};
    for (Extension mode : {Extension::kReflect, Extension::kEdge, Extension::kWrap}) {
      for (DType dtype : kTypes) {
        check(extend_problem(target, dtype, {2, 5, 7}, std::vector<int64_t>{0, 1, 2}, {2, 8, 10},
                             mode));
      }
      check(extend_problem(target, DType::kFloat32, {1, 9000}, std::vector<int64_t>{0, 5000},
                           {1, 19000}, mode));
    }
  }
}

TEST(CopyRegion, PadValue) {
  CopyRegionProblem p = pad_problem({}, DType::kFloat32, {1}, std::vector<int64_t>{1}, {3}, -2.5);
  Workbench bench(kCopyRegion, &p);
  bench.unalign_inputs();
  bench.run(0);
  EXPECT_EQ(bench.output(0)[0], -2.5f);
  EXPECT_EQ(bench.output(0)[1], bench.input(0)[0]);
  EXPECT_EQ(bench.output(0)[2], -2.5f);
}

}  // namespace
}  // namespace stretto::kernels
