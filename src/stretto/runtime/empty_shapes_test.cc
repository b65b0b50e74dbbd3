// Dimensions of zero: kernels plan with quotients of dimensions, so such nodes run as references.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "stretto/ir/interpreter.h"
#include "stretto/runtime/load_and_run.h"
#include "stretto/runtime/testing.h"
#include "stretto/tensor/compare.h"

namespace stretto::runtime {
namespace {

struct Case {
  const char* name;
  std::string_view text;
};

// Results have elements wherever the operator allows that.
constexpr Case kCases[] = {
    {"convolution_of_no_channels", R"(
      input x: float32[1, 0, 8, 8]
      constant w: float32[8, 0, 1, 1] = {}
      constant b: float32[8] = random(1)
      y = stretto.Conv(x, w, b))"},
    {"convolution_of_no_channels_3x3", R"(
      input x: float32[1, 0, 8, 8]
      constant w: float32[8, 0, 3, 3] = {}
      y = stretto.Conv(x, w) {pads = [1, 1, 1, 1]})"},
    {"convolution_to_no_channels", R"(
      input x: float32[1, 3, 8, 8]
      constant w: float32[0, 3, 3, 3] = {}
      y = stretto.Conv(x, w))"},
    {"convolution_of_no_images", R"(
      input x: float32[0, 3, 8, 8]
      constant w: float32[4, 3, 3, 3] = random(1)
      y = stretto.Conv(x, w))"},
    {"transposed_convolution_of_no_channels", R"(
      input x: float32[1, 0, 8, 8]
      constant w: float32[0, 8, 2, 2] = {}
      constant b: float32[8] = random(1)
      y = stretto.ConvTranspose(x, w, b) {strides = [2, 2]})"},
    {"linear_of_no_columns", R"(
      input x: float32[4, 0]
      constant w: float32[0, 6] = {}
      constant b: float32[6] = random(1)
      y = stretto.Linear(x, w, b))"},
    {"product_of_no_columns", R"(
      input x: float32[2, 4, 0]
      input w: float32[2, 0, 6]
      y = MatMul(x, w))"},
    {"sum_of_nothing", R"(
      input x: float32[4, 0]
      constant axes: int64[1] = {1}
      y = ReduceSum(x, axes))"},
    {"softmax_of_no_rows", R"(
      input x: float32[0, 7]
      y = Softmax(x))"},
    {"concatenation_with_nothing", R"(
      input x: float32[1, 0, 4, 4]
      input z: float32[1, 16, 4, 4]
      y = Concat(x, z) {axis = 1})"},
    {"padding_around_nothing", R"(
      input x: float32[1, 0, 2]
      constant pads: int64[6] = {0, 1, 0, 0, 1, 0}
      y = Pad(x, pads))"},
    {"pool_of_no_channels", R"(
      input x: float32[1, 0, 8, 8]
      y = MaxPool(x) {kernel_shape = [2, 2], strides = [2, 2]})"},
};

class EmptyShapes : public ::testing::TestWithParam<Case> {};

TEST_P(EmptyShapes, RunAsTheReferenceDoes) {
  for (const int threads : {1, 2}) {
    const Model model = model_of(fmt::format("graph g\n{}\noutput y\n", GetParam().text), threads);
    std::vector<Tensor> inputs;
    for (const TensorSpec& spec : model.inputs()) inputs.push_back(varied_input(spec));
    const Tensor expected = ir::interpret(*model.state().graph, inputs)[0];
    Session session(model);
    const Tensor got = session.run(inputs)[0];
    ASSERT_EQ(got.shape(), expected.shape());
    // Sums of nothing, biases and copies: the same in float32 and in double precision.
    EXPECT_EQ(compare(got, expected).max_abs, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EmptyShapes, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace stretto::runtime
