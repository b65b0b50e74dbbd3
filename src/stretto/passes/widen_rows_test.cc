#include "stretto/passes/pass_test.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kNet = R"(
  graph net
  input x: float32[2, 8, 20]
  constant w1: float32[16, 8, 3] = random(1)
  constant b1: float32[16] = random(2)
  constant w2: float32[16, 1, 5] = random(3)
  constant w3: float32[16, 8, 1] = random(4)
  constant slope: float32[16, 1] = random(5)
  a = Conv(x, w1, b1) {pads = [1, 1], strides = [2]}
  b = PRelu(a, slope)
  c = Conv(b, w2) {pads = [4, 4], dilations = [2], group = 16}
  d = Conv(x, w3) {strides = [2]}
  e = Sigmoid(d)
  f = Mul(c, e)
  g = Concat(f, b) {axis = 1}
  h = MaxPool(g) {kernel_shape = [2], strides = [2]}
  i = GlobalAveragePool(h)
  output g, i
)";

TEST(WidenRows, ConvolutionsAndWhatIsBetweenThemBecomeImages) {
  const ir::Graph before = ir::parse_text(kNet);
  ir::Graph after = before;
  const auto report = run_pipeline(after);
  expect_same_results(before, after, 1e-6);
  for (const ir::Node& node : after.nodes) {
    if (node.op->name == "Reshape") continue;
    EXPECT_EQ(after.value(node.outputs[0]).shape->size(), 4u) << node.op->name << " " << node.name;
  }
  // One for the input that two convolutions share, and one per output.
  const auto reshapes = std::count_if(after.nodes.begin(), after.nodes.end(),
                                      [](const auto& n) { return n.op->name == "Reshape"; });
  EXPECT_EQ(reshapes, 3);
}

TEST(WidenRows, ResidualsComeAsImages) {
  const ir::Graph before = ir::parse_text(R"(
    graph net
    input x: float32[1, 8, 12]
    constant w: float32[8, 8, 3] = random(1)
    a = Conv(x, w) {pads = [1, 1]}
    b = Add(a, x)
    c = Relu(b)
    output c
  )");
  ir::Graph after = before;
  run_pipeline(after);
  expect_same_results(before, after, 1e-6);
  const auto conv = std::find_if(after.nodes.begin(), after.nodes.end(),
                                 [](const auto& n) { return n.op->name == "stretto.Conv"; });
  ASSERT_NE(conv, after.nodes.end());
  ASSERT_EQ(conv->inputs.size(), 4u);
  EXPECT_EQ(conv->inputs[0], conv->inputs[3]);
}

TEST(WidenRows, TransposedConvolutionsBecomeImages) {
  const ir::Graph before = ir::parse_text(R"(
    graph net
    input x: float32[2, 8, 7]
    constant w1: float32[8, 4, 4] = random(1)
    constant b1: float32[4] = random(2)
    constant w2: float32[4, 4, 3] = random(3)
    constant w3: float32[4, 2, 3] = random(4)
    a = ConvTranspose(x, w1, b1) {pads = [1, 2], strides = [3], output_padding = [2]}
    b = LeakyRelu(a)
    c = Conv(b, w2) {pads = [1, 1]}
    d = ConvTranspose(c, w3) {dilations = [2], group = 2}
    e = ConvTranspose(c, w3) {output_shape = [20], strides = [1]}
    output d, e
  )");
  ir::Graph after = before;
  run_pipeline(after);
  expect_same_results(before, after, 1e-6);
  for (const ir::Node& node : after.nodes) {
    const bool wide = after.value(node.outputs[0]).shape->size() == 4;
    EXPECT_TRUE(wide || node.op->name == "Reshape" || node.name == "e") << node.name;
  }
}

// What must stay as it is: sums with rows that no convolution made, constants along the row,
// vectors, and everything when the pass is off.
TEST(WidenRows, LeavesOtherRowsAlone) {
  const ir::Graph before = ir::parse_text(R"(
    graph net
    input x: float32[2, 8, 1]
    input y: float32[2, 4, 6]
    input z: float32[2, 4, 6]
    constant w: float32[4, 8, 1] = random(1)
    constant v: float32[4, 4, 3] = random(2)
    constant along: float32[6] = random(3)
    a = Conv(x, w)
    b = Conv(y, v) {pads = [1, 1]}
    s = Softmax(z) {axis = -1}
    c = Mul(b, s)
    d = Mul(b, along)
    output a, c, d
  )");
  ir::Graph after = before;
  run_pipeline(after);
  expect_same_results(before, after, 1e-6);
  ir::Graph plain = before;
  run_pipeline(plain, {.disabled = {"widen-rows"}});
  for (const ir::Node& node : plain.nodes) EXPECT_NE(node.op->name, "Reshape");
}

}  // namespace
}  // namespace stretto::passes
