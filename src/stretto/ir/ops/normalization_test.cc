#include <cmath>

#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

TEST(BatchNormalization, PerChannel) {
  const Tensor x = floats({1, 2, 2}, {1, 3, 5, 9});
  const Tensor scale = floats({2}, {2, 1}), shift = floats({2}, {0, -1}),
               mean = floats({2}, {1, 5}), variance = floats({2}, {4, 16});
  expect_values(run("BatchNormalization", {x, scale, shift, mean, variance}, {{"epsilon", 0.0}}),
                {1, 2, 2}, {0, 2, -1, 0});
  EXPECT_NE(error_of("BatchNormalization", {x, ramp({3}), shift, mean, variance}).find("scale"),
            std::string::npos);
  EXPECT_NE(error_of("BatchNormalization", {x, scale, shift, mean, variance},
                     {{"training_mode", int64_t{1}}})
                .find("training_mode"),
            std::string::npos);
}

TEST(Softmax, AlongAnyAxisWithoutOverflow) {
  const double e = M_E;
  expect_values(run("Softmax", {floats({1, 3}, {1000, 1001, 1002})}), {1, 3},
                {1 / (1 + e + e * e), e / (1 + e + e * e), e * e / (1 + e + e * e)}, 1e-7);
  expect_values(run("Softmax", {floats({2, 2}, {0, 7, 1, 7})}, {{"axis", int64_t{0}}}), {2, 2},
                {1 / (1 + e), 0.5, e / (1 + e), 0.5}, 1e-7);
  expect_values(run("LogSoftmax", {floats({2}, {0, 1})}), {2},
                {-std::log(1 + e), 1 - std::log(1 + e)}, 1e-7);
  expect_values(run("Hardmax", {floats({2, 3}, {1, 3, 3, 2, 0, 1})}), {2, 3}, {0, 1, 0, 1, 0, 0});
  expect_values(run("Softmax", {floats({2}, {NAN, 1})}), {2}, {NAN, NAN});
  expect_values(run("Softmax", {ramp({2, 0})}), {2, 0}, {});
  EXPECT_NE(error_of("Softmax", {ramp({2, 2})}, {{"axis", int64_t{2}}}).find("axis"),
            std::string::npos);
}

TEST(GroupNormalization, ZeroMeanUnitDeviationPerGroup) {
  // Groups {1, 3} and {10, 30}: normalised to -1 and 1.
  const Tensor x = floats({1, 4, 1}, {1, 3, 10, 30});
  const Tensor scale = floats({4}, {1, 2, 3, 4}), bias = floats({4}, {0, 0, 0, 1});
  expect_values(
      run("GroupNormalization", {x, scale, bias}, {{"num_groups", int64_t{2}}, {"epsilon", 0.0}}),
      {1, 4, 1}, {-1, 2, -3, 5});
  expect_values(run("InstanceNormalization",
                    {floats({1, 2, 2}, {1, 3, 10, 30}), floats({2}, {1, 2}), floats({2}, {0, 5})},
                    {{"epsilon", 0.0}}),
                {1, 2, 2}, {-1, 1, 3, 7});
  EXPECT_NE(error_of("GroupNormalization", {x, scale, bias}, {{"num_groups", int64_t{3}}})
                .find("3 groups"),
            std::string::npos);
}

TEST(LayerNormalization, MomentsAndParameters) {
  const Tensor x = floats({2, 2}, {1, 3, 5, 5});
  const auto all = run_all("LayerNormalization", {x, floats({2}, {2, 1}), floats({1}, {1})},
                           {{"epsilon", 1.0}}, 3);
  const double r = 1 / std::sqrt(2.0);
  expect_values(all[0], {2, 2}, {1 - 2 * r, 1 + r, 1, 1}, 1e-6);
  expect_values(all[1], {2, 1}, {2, 5});
  expect_values(all[2], {2, 1}, {r, 1}, 1e-6);
  expect_values(
      run("RMSNormalization", {floats({1, 2}, {3, 4}), floats({2}, {1, 1})}, {{"epsilon", 0.0}}),
      {1, 2}, {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)}, 1e-6);
  EXPECT_NE(error_of("LayerNormalization", {x, ramp({3})}).find("scale"), std::string::npos);
}

TEST(AddLayerNorm, IsTheSumOfBoth) {
  const Tensor x = ramp({2, 3}), residual = floats({2, 3}, {1, -4, 2, 0, 3, 9}),
               scale = ramp({3}, 1, 1);
  const Tensor sum = run("Add", {x, residual});
  const auto fused = run_all("stretto.AddLayerNorm", {x, residual, scale, {}}, {}, 2);
  EXPECT_EQ(fused[1].as_doubles(), sum.as_doubles());
  expect_values(fused[0], {2, 3}, run("LayerNormalization", {sum, scale}).as_doubles(), 1e-6);
}

TEST(LRN, NeighbourhoodOfChannels) {
  // size 2: a channel and the one above it.
  expect_values(run("LRN", {floats({1, 3, 1}, {1, 2, 3})},
                    {{"size", int64_t{2}}, {"alpha", 2.0}, {"beta", 1.0}, {"bias", 0.0}}),
                {1, 3, 1}, {1.0 / 5, 2.0 / 13, 3.0 / 9}, 1e-6);
}

}  // namespace
}  // namespace stretto::ir
