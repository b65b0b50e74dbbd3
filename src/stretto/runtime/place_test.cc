// Where results lie: over an input that nobody reads any more, where the kernel allows it.
#include <gtest/gtest.h>

#include "stretto/ir/interpreter.h"
#include "stretto/runtime/measure_model.h"
#include "stretto/runtime/testing.h"

namespace stretto::runtime {
namespace {

constexpr std::string_view kBefore = R"(
  graph residual
  input x: float32[2, 16, 5, 7]
  constant w: float32[32, 16, 1, 1] = random(1)
  constant v: float32[32, 32, 1, 1] = random(2)
  constant b: float32[32] = random(3)
  r = stretto.Conv(x, w, b) {activation = "relu"}
  a = stretto.Conv(x, w, b) {activation = "sigmoid"}
)";

// The convolution that adds a residual must lie over it, or must not; right it is in any case.
void expect_over_residual(std::string_view rest, bool over) {
  const std::string text = std::string(kBefore) + std::string(rest);
  SCOPED_TRACE(rest);
  const Model model = model_of(text, 1, {{"conv2d", "gemm_1x1"}});
  const Program& program = *model.state().program;
  int residuals = 0;
  for (const Instruction& in : program.instructions) {
    if (in.family == nullptr || in.family->in_place(in.row, in.problem.data()) != 1) continue;
    ++residuals;
    const Location &from = in.inputs[1], &to = in.outputs[0];
    const bool same = from.place == to.place && from.index == to.index && from.offset == to.offset;
    EXPECT_EQ(same, over) << in.node;
  }
  EXPECT_GE(residuals, 1);

  Tensor x(DType::kFloat32, {2, 16, 5, 7});
  const std::span<float> values = x.mutable_values<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 23) / 23 - 0.5f;
  const std::vector<Tensor> inputs{x};
  const std::vector<Tensor> expected = ir::interpret(*model.state().graph, inputs);
  Session session(model);
  const std::vector<Tensor> got = session.run(inputs);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_LT(compare("y", got[i], expected[i]).relative_to_max, 2e-5);
}

TEST(Place, AResultLiesOverAResidualThatNobodyReadsAgain) {
  expect_over_residual(R"(
    y = stretto.Conv(a, v, b, r) {activation = "relu"}
    z = stretto.Conv(a, v, b, y) {activation = "silu"}
    s = Add(z, a)
    output s
  )",
                       true);
}

TEST(Place, NotOverOneThatIsReadAgain) {
  expect_over_residual(R"(
    y = stretto.Conv(a, v, b, r) {activation = "relu"}
    z = Add(y, r)
    s = Sigmoid(z)
    output s
  )",
                       false);
}

TEST(Place, NotOverOneThatIsTheConvolutionsOwnInput) {
  expect_over_residual(R"(
    y = stretto.Conv(r, v, b, r) {activation = "relu"}
    z = Add(y, a)
    output z
  )",
                       false);
}

}  // namespace
}  // namespace stretto::runtime
