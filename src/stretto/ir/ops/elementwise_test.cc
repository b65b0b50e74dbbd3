#include <cmath>
#include <limits>

#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kInfF = std::numeric_limits<float>::infinity();

TEST(ElementwiseUnary, EdgeValues) {
  const Tensor x = floats({5}, {-kInfF, -1, 0, kInfF, NAN});
  expect_values(run("Relu", {x}), {5}, {0, 0, 0, kInf, NAN});
  expect_values(run("Sigmoid", {x}), {5}, {0, 1 / (1 + M_E), 0.5, 1, NAN}, 1e-7);
  expect_values(run("Softplus", {x}), {5}, {0, std::log(1 + 1 / M_E), M_LN2, kInf, NAN}, 1e-7);
  expect_values(run("Abs", {x}), {5}, {kInf, 1, 0, kInf, NAN});
  expect_values(run("Sign", {x}), {5}, {-1, -1, 0, 1, NAN});
  expect_values(run("Sqrt", {x}), {5}, {NAN, NAN, 0, kInf, NAN});
  expect_values(run("IsNaN", {x}), {5}, {0, 0, 0, 0, 1});
  expect_values(run("Round", {floats({6}, {0.5, 1.5, 2.5, -0.5, -1.5, 2.4f})}), {6},
                {0, 2, 2, 0, -2, 2});
  expect_values(run("HardSwish", {floats({4}, {-4, -1, 1, 5})}), {4}, {0, -1.0 / 3, 2.0 / 3, 5}, 1e-7);
  expect_values(run("Mish", {floats({2}, {1, -40})}), {2}, {0.8650983882673103, -40 * std::exp(-40.0)},
                1e-7);
  expect_values(run("Exp", {floats({0}, {})}), {0}, {});
}

TEST(ElementwiseUnary, IntegersAndBools) {
  const Tensor x = ints({-3, 0, std::numeric_limits<int64_t>::min()});
  expect_values(run("Abs", {x}), {3}, {3, 0, static_cast<double>(x.values<int64_t>()[2])});
  expect_values(run("Neg", {ints({5, -7})}), {2}, {-5, 7});
  const bool flags[] = {true, false};
  expect_values(run("Not", {Tensor::of<bool>({2}, flags)}), {2}, {0, 1});
  EXPECT_NE(error_of("Exp", {ints({1})}).find("may be float32, float64, got int64"),
            std::string::npos);
}

TEST(ElementwiseBinary, Broadcasts) {
  const Tensor a = ramp({2, 1, 3}), b = floats({4, 1}, {0, 10, 20, 30});
  std::vector<double> expected;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 4; ++j)
      for (int k = 0; k < 3; ++k) expected.push_back(i * 3 + k - 10 * j);
  expect_values(run("Sub", {a, b}), {2, 4, 3}, expected);
  expect_values(run("Add", {floats({}, {2}), ramp({0, 3})}), {0, 3}, {});
  expect_values(run("Mul", {ramp({2, 2, 2}), floats({}, {3})}), {2, 2, 2},
                {0, 3, 6, 9, 12, 15, 18, 21});
  EXPECT_EQ(error_of("Add", {ramp({2, 3}), ramp({2})}),
            "Add \"n\": shapes 2x3 and 2 do not broadcast");
  EXPECT_NE(error_of("Add", {ramp({2}), ints({1, 2})}).find("same type"), std::string::npos);
}

TEST(ElementwiseBinary, IntegerEdges) {
  const int64_t least = std::numeric_limits<int64_t>::min();
  expect_values(run("Div", {ints({7, -7, 5, least}), ints({2, 2, 0, -1})}), {4},
                {3, -3, 0, static_cast<double>(least)});
  const int8_t a[] = {127, -128}, b[] = {1, -1};
  expect_values(run("Add", {Tensor::of<int8_t>({2}, a), Tensor::of<int8_t>({2}, b)}), {2},
                {-128, 127});
}

TEST(ElementwiseBinary, ComparisonsWithNaN) {
  const Tensor a = floats({3}, {1, NAN, 2}), b = floats({3}, {1, NAN, 3});
  expect_values(run("Equal", {a, b}), {3}, {1, 0, 0});
  expect_values(run("Less", {a, b}), {3}, {0, 0, 1});
  expect_values(run("LessOrEqual", {a, b}), {3}, {1, 0, 1});
  expect_values(run("Greater", {b, a}), {3}, {0, 0, 1});
  EXPECT_EQ(run("GreaterOrEqual", {a, b}).dtype(), DType::kBool);
}

TEST(ElementwiseBinary, ThreadsCoverEveryElementOnce) {
  ThreadTeam team(3);
  const Tensor a = ramp({7, 1, 5000}), b = ramp({11, 1}, 1000);
  const auto one = run_all("Add", {a, b}), many = run_all("Add", {a, b}, {}, 1, &team);
  EXPECT_EQ(one[0].as_doubles(), many[0].as_doubles());
}

}  // namespace
}  // namespace stretto::ir
