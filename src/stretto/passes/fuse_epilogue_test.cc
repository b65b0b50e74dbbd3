#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

const std::vector<const Pass*> kPasses{&kRecogniseActivation, &kFuseConv, &kFuseLinear,
                                       &kFoldBatchNorm, &kFuseEpilogue};

Rewritten conv_then(std::string_view body) {
  return rewrite(fmt::format(R"(graph g
    input x: float32[1, 4, 5, 5]
    input r: float32[1, 4, 5, 5]
    constant w: float32[4, 4, 3, 3] = random(1)
    constant three: float32[] = {{3}}
    constant zero: float32[] = {{0}}
    constant six: float32[] = {{6}}
    c = Conv(x, w) {{pads = [1, 1, 1, 1]}}
    {})",
                             body),
                 kPasses);
}

TEST(FuseEpilogue, EveryActivation) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"y = Relu(c)", "relu"},
      {"y = Clip(c, zero, six)", "clip"},
      {"y = Clip(c, zero)", "relu"},
      {"y = Clip(c, _, six)", "clip"},
      {"y = LeakyRelu(c) {alpha = 0.2}", "leaky_relu"},
      {"y = Sigmoid(c)", "sigmoid"},
      {"s = Sigmoid(c) y = Mul(c, s)", "silu"},
      {"y = HardSigmoid(c) {alpha = 0.25, beta = 0.5}", "hard_sigmoid"},
      {"y = HardSwish(c)", "hard_swish"},
      {"y = Tanh(c)", "tanh"},
      {"y = Gelu(c)", "gelu"},
      {"y = Gelu(c) {approximate = \"tanh\"}", "gelu_tanh"},
      {"y = Elu(c) {alpha = 0.5}", "elu"}};
  for (const auto& [body, name] : cases) {
    const auto r = conv_then(std::string(body) + "\noutput y");
    EXPECT_EQ(r.graph.nodes.size(), 1u) << body;
    EXPECT_EQ(r.node("stretto.Conv").attributes.text("activation", ""), name);
  }
}

TEST(FuseEpilogue, NotWhenTheSumIsNeededToo) {
  EXPECT_EQ(conv_then("y = Relu(c)\noutput y, c").times("activation"), 0);
  EXPECT_EQ(conv_then("y = Relu(c)\nz = Neg(c)\noutput y, z").times("activation"), 0);
}

TEST(FuseEpilogue, NotASecondActivation) {
  EXPECT_EQ(conv_then("a = Relu(c)\ny = Tanh(a)\noutput y").times("activation"), 1);
}

TEST(FuseEpilogue, ClipBoundsThatAreComputedStay) {
  const auto r = rewrite(R"(graph g
    input x: float32[1, 1, 4, 4]
    input lo: float32[]
    constant w: float32[1, 1, 1, 1] = random(1)
    c = Conv(x, w)
    y = Clip(c, lo)
    output y)",
                         kPasses);
  EXPECT_EQ(r.times("activation"), 0);
}

TEST(FuseEpilogue, ResidualInBothOrders) {
  const auto before = conv_then("s = Add(r, c)\ny = Relu(s)\noutput y");
  EXPECT_EQ(before.graph.nodes.size(), 1u);
  EXPECT_EQ(before.node("stretto.Conv").attributes.integer("residual_after_activation", 0), 0);
  const auto after = conv_then("a = Relu(c)\ny = Add(a, r)\noutput y");
  EXPECT_EQ(after.graph.nodes.size(), 1u);
  EXPECT_EQ(after.node("stretto.Conv").attributes.integer("residual_after_activation", 0), 1);
  const auto both = conv_then("a = Relu(c)\ns = Add(a, r)\ny = Relu(s)\noutput y");
  EXPECT_EQ(both.nodes("Relu"), 1);  // no room for an activation after the residual
}

TEST(FuseEpilogue, ResidualOfTheSameShapeOnly) {
  const auto r = rewrite(R"(graph g
    input x: float32[1, 4, 5, 5]
    input r: float32[1, 4, 1, 1]
    constant w: float32[4, 4, 1, 1] = random(1)
    c = Conv(x, w)
    y = Add(c, r)
    output y)",
                         kPasses);
  EXPECT_EQ(r.times("residual"), 0);
  EXPECT_EQ(conv_then("y = Add(c, c)\noutput y").times("residual"), 0);
}

TEST(FuseEpilogue, OfTwoConvolutionsTheLaterTakesTheSum) {
  const auto r = conv_then(R"(d = Conv(r, w) {pads = [1, 1, 1, 1]}
    s = Add(d, c)
    y = Relu(s)
    output y)");
  ASSERT_EQ(r.graph.nodes.size(), 2u);
  EXPECT_EQ(r.graph.nodes[0].name, "c");
  EXPECT_EQ(r.graph.nodes[1].name, "d");
}

TEST(FuseEpilogue, LinearsWithThreeDimensions) {
  const auto r = rewrite(R"(graph g
    input x: float32[2, 5, 3]
    input r: float32[2, 5, 4]
    constant w: float32[3, 4] = random(1)
    constant b: float32[4] = random(2)
    m = MatMul(x, w)
    a = Add(b, m)
    g = Gelu(a)
    y = Add(g, r)
    output y)",
                         kPasses);
  EXPECT_EQ(r.graph.nodes.size(), 1u);
  EXPECT_EQ(r.node("stretto.Linear").inputs.size(), 4u);
}

}  // namespace
}  // namespace stretto::passes
