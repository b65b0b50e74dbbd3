#include <cmath>
#include <limits>

#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Reduce, AxesAndKeptDimensions) {
  const Tensor x = ramp({2, 3, 2});
  expect_values(run("ReduceSum", {x, ints({1})}), {2, 1, 2}, {6, 9, 24, 27});
  expect_values(run("ReduceSum", {x, ints({0, -1})}, {{"keepdims", int64_t{0}}}), {3},
                {14, 22, 30});
  expect_values(run("ReduceMean", {x}), {1, 1, 1}, {5.5});
  expect_values(run("ReduceMean", {x}, {{"noop_with_empty_axes", int64_t{1}}}), {2, 3, 2},
                x.as_doubles());
  EXPECT_NE(error_of("ReduceMax", {x, ints({3})}).find("axis 3"), std::string::npos);
}

TEST(Reduce, EveryKind) {
  const Tensor x = floats({3}, {-1, 2, -3});
  const auto reduced = [&](std::string_view op) { return run(op, {x}).as_doubles()[0]; };
  EXPECT_EQ(reduced("ReduceL1"), 6);
  EXPECT_NEAR(reduced("ReduceL2"), std::sqrt(14.0), 1e-6);
  EXPECT_NEAR(reduced("ReduceLogSumExp"), std::log(std::exp(-1.0) + std::exp(2.0) + std::exp(-3.0)),
              1e-6);
  EXPECT_EQ(reduced("ReduceMax"), 2);
  EXPECT_EQ(reduced("ReduceMin"), -3);
  EXPECT_EQ(reduced("ReduceProd"), 6);
  EXPECT_EQ(reduced("ReduceSumSquare"), 14);
  EXPECT_NEAR(run("ReduceLogSum", {floats({2}, {1, 2})}).as_doubles()[0], std::log(3.0), 1e-6);
}

TEST(Reduce, NothingNotANumberAndIntegers) {
  const Tensor nothing = ramp({2, 0});
  expect_values(run("ReduceSum", {nothing, ints({1})}), {2, 1}, {0, 0});
  expect_values(run("ReduceProd", {nothing, ints({1})}), {2, 1}, {1, 1});
  expect_values(run("ReduceMax", {nothing, ints({1})}), {2, 1}, {-kInf, -kInf});
  expect_values(run("ReduceMean", {nothing, ints({1})}), {2, 1}, {NAN, NAN});
  expect_values(run("ReduceMax", {floats({3}, {1, NAN, 2})}), {1}, {NAN});
  expect_values(run("ReduceLogSumExp", {floats({2}, {-INFINITY, -INFINITY})}), {1}, {-kInf});
  expect_values(run("ReduceSum", {ints({1, 2, 3})}), {1}, {6});
  expect_values(run("ReduceMean", {ints({1, 2, 4})}), {1}, {2});
  expect_values(run("ReduceL1", {ints({-1, 2})}), {1}, {3});
}

TEST(ArgMax, TiesAndNaN) {
  const Tensor x = floats({2, 3}, {1, 3, 3, NAN, 9, NAN});
  expect_values(run("ArgMax", {x}, {{"axis", int64_t{1}}}), {2, 1}, {1, 0});
  expect_values(
      run("ArgMax", {x},
          {{"axis", int64_t{1}}, {"select_last_index", int64_t{1}}, {"keepdims", int64_t{0}}}),
      {2}, {2, 2});
  expect_values(run("ArgMin", {floats({3}, {2, 1, 1})}), {1}, {1});
  EXPECT_NE(error_of("ArgMax", {ramp({0})}).find("empty"), std::string::npos);
}

TEST(TopK, LargestSmallestAndTies) {
  const Tensor x = floats({2, 3}, {1, 5, 5, 7, 2, 9});
  const auto top = run_all("TopK", {x, ints({2})}, {}, 2);
  expect_values(top[0], {2, 2}, {5, 5, 9, 7});
  expect_values(top[1], {2, 2}, {1, 2, 2, 0});
  const auto least =
      run_all("TopK", {x, ints({1})}, {{"largest", int64_t{0}}, {"axis", int64_t{0}}}, 2);
  expect_values(least[0], {1, 3}, {1, 2, 5});
  expect_values(least[1], {1, 3}, {0, 1, 0});
  EXPECT_NE(error_of("TopK", {x, ints({4})}, {}, 2).find("K"), std::string::npos);
}

TEST(CumSum, ForwardsBackwardsExclusive) {
  const Tensor x = ramp({4}, 1, 1);
  const auto sums = [&](int64_t exclusive, int64_t reverse) {
    return run("CumSum", {x, ints({}, {-1})}, {{"exclusive", exclusive}, {"reverse", reverse}})
        .as_doubles();
  };
  EXPECT_EQ(sums(0, 0), (std::vector<double>{1, 3, 6, 10}));
  EXPECT_EQ(sums(1, 0), (std::vector<double>{0, 1, 3, 6}));
  EXPECT_EQ(sums(0, 1), (std::vector<double>{10, 9, 7, 4}));
  EXPECT_EQ(sums(1, 1), (std::vector<double>{9, 7, 4, 0}));
}

TEST(Trilu, UpperLowerShifted) {
  const Tensor x = ramp({2, 2, 2}, 1, 1);
  expect_values(run("Trilu", {x}), {2, 2, 2}, {1, 2, 0, 4, 5, 6, 0, 8});
  expect_values(run("Trilu", {ramp({2, 3}, 1, 1), ints({}, {-1})}, {{"upper", int64_t{0}}}), {2, 3},
                {0, 0, 0, 4, 0, 0});
}

}  // namespace
}  // namespace stretto::ir
