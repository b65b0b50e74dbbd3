#include <cmath>

#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

TEST(BatchNormalization, PerChannel) {
  const Tensor x = floats({1, 2, 2}, {1, 3, 5, 9});
  const Tensor scale = floats({2}, {2, 1}), shift = floats({2}, {0, -1}), mean = floats({2}, {1, 5}),
               variance = floats({2}, {4, 16});
  expect_values(run("BatchNormalization", {x, scale, shift, mean, variance}, {{"epsilon", 0.0}}),
                {1, 2, 2}, {0, 2, -1, 0});
  EXPECT_NE(error_of("BatchNormalization", {x, ramp({3}), shift, mean, variance}).find("scale"),
            std::string::npos);
  EXPECT_NE(error_of("BatchNormalization", {x, scale, shift, mean, variance},
                     {{"training_mode", int64_t{1}}}).find("training_mode"), std::string::npos);
}

TEST(Softmax, AlongAnyAxisWithoutOverflow) {
  const double e = M_E;
  expect_values(run("Softmax", {floats({1, 3}, {1000, 1001, 1002})}), {1, 3},
                {1 / (1 + e + e * e), e / (1 + e + e * e), e * e / (1 + e + e * e)}, 1e-7);
  expect_values(run("Softmax", {floats({2, 2}, {0, 7, 1, 7})}, {{"axis", int64_t{0}}}), {2, 2},
                {1 / (1 + e), 0.5, e / (1 + e), 0.5}, 1e-7);
  expect_values(run("LogSoftmax", {floats({2}, {0, 1})}), {2}, {-std::log(1 + e), 1 - std::log(1 + e)},
                1e-7);
  expect_values(run("Hardmax", {floats({2, 3}, {1, 3, 3, 2, 0, 1})}), {2, 3}, {0, 1, 0, 1, 0, 0});
  expect_values(run("Softmax", {floats({2}, {NAN, 1})}), {2}, {NAN, NAN});
  expect_values(run("Softmax", {ramp({2, 0})}), {2, 0}, {});
  EXPECT_NE(error_of("Softmax", {ramp({2, 2})}, {{"axis", int64_t{2}}}).find("axis"), std::string::npos);
}

}  // namespace
}  // namespace stretto::ir
