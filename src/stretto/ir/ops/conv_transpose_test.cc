#include <cmath>

#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

using Ints = std::vector<int64_t>;

TEST(ConvTranspose, HandComputed) {
  // Stride 2, kernel 3: every input stamps the kernel, neighbours overlap by one.
  expect_values(run("ConvTranspose", {floats({1, 1, 2}, {1, 10}), floats({1, 1, 3}, {1, 2, 3})},
                    {{"strides", Ints{2}}}),
                {1, 1, 5}, {1, 2, 13, 20, 30});
  expect_values(run("ConvTranspose",
                    {floats({1, 1, 2}, {1, 10}), floats({1, 1, 3}, {1, 2, 3}), floats({1}, {1})},
                    {{"strides", Ints{2}}, {"pads", Ints{1, 1}}, {"output_padding", Ints{1}}}),
                {1, 1, 4}, {3, 14, 21, 31});
  expect_values(run("ConvTranspose", {floats({1, 1, 2}, {1, 10}), floats({1, 1, 3}, {1, 2, 3})},
                    {{"strides", Ints{2}}, {"auto_pad", std::string("SAME_UPPER")}}),
                {1, 1, 4}, {1, 2, 13, 20});
}

// <conv(y, w), x> = <y, conv_transpose(x, w)> for every x and y: the adjoint, independent of how
// either is computed.
TEST(ConvTranspose, IsTheAdjointOfConv) {
  const AttributeList attributes = {{"group", int64_t{2}},
                                    {"strides", Ints{2, 1}},
                                    {"pads", Ints{1, 0, 1, 2}},
                                    {"dilations", Ints{1, 2}}};
  const auto wave = [](Shape shape, double phase) {
    Tensor t(DType::kFloat64, std::move(shape));
    double i = phase;
    for (double& v : t.mutable_values<double>()) v = std::sin(1.7 * ++i);
    return t;
  };
  const Tensor y = wave({2, 6, 7, 9}, 0.1), w = wave({10, 3, 3, 2}, 0.7);
  const Tensor forward = run("Conv", {y, w}, attributes);
  const Tensor x = wave(forward.shape(), 0.3);
  const Tensor back = run("ConvTranspose", {x, w}, attributes);
  ASSERT_EQ(back.shape(), y.shape());
  double left = 0, right = 0;
  for (int64_t i = 0; i < x.count(); ++i)
    left += forward.values<double>()[i] * x.values<double>()[i];
  for (int64_t i = 0; i < y.count(); ++i) right += back.values<double>()[i] * y.values<double>()[i];
  EXPECT_NEAR(left, right, 1e-9);
}

TEST(ConvTranspose, NamesWhatIsWrong) {
  EXPECT_NE(error_of("ConvTranspose", {ramp({1, 3, 4}), ramp({2, 1, 3})})
                .find("weight has 2 input channels, input has 3"),
            std::string::npos);
  EXPECT_NE(error_of("ConvTranspose", {ramp({1, 1, 1}), ramp({1, 1, 2})}, {{"pads", Ints{1, 1}}})
                .find("cut off"),
            std::string::npos);
}

}  // namespace
}  // namespace stretto::ir
