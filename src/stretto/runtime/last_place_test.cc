#include "stretto/runtime/last_place.h"

#include <gtest/gtest.h>

#include <string>

#include "stretto/ir/interpreter.h"
#include "stretto/ir/operator.h"
#include "stretto/ir/text.h"

namespace stretto::runtime {
namespace {

constexpr std::string_view kGraphOfHead = R"(graph g
  input x: float32[2, 5, 4]
  constant w: float32[4, 6] = random(1)
  constant b: float32[6] = random(2)
  constant scale: float32[] = {0.5}
  constant rows: float32[5, 1] = random(3)
  constant sides: int64[3] = {0, 5, 6}
  h = Relu(x)
)";

Tensor counted(const Shape& shape) {
  Tensor tensor(DType::kFloat32, shape);
  float i = 0;
  for (float& value : tensor.mutable_values<float>()) value = static_cast<float>(++i * 7) / 41 - 1;
  return tensor;
}

std::string graph_text(const std::string& nodes) {
  return std::string(kGraphOfHead) + nodes + "  output y, h\n";
}

TEST(LastPlace, IsThatOfAllPlaces) {
  for (const char* nodes : {
           "  y = MatMul(h, w)\n",
           "  p = MatMul(h, w)\n  q = Add(p, b)\n  t = Mul(scale, q)\n  y = Tanh(t)\n",
           "  p = MatMul(h, w)\n  q = MatMul(x, w)\n  y = Sub(p, q)\n",
       }) {
    ir::Graph graph = ir::parse_text(graph_text(nodes));
    ir::infer(graph);
    const Tensor inputs[] = {counted({2, 5, 4})};
    const auto want = ir::interpret(graph, inputs, {});
    ASSERT_TRUE(keep_last_place(graph, 0)) << nodes;
    ir::verify(graph);
    EXPECT_EQ(graph.value(graph.outputs[0]).name, "y");
    // No product of all places is left.
    for (const ir::Node& node : graph.nodes) {
      if (node.op->name != "MatMul") continue;
      EXPECT_EQ(graph.value(node.outputs[0]).shape->at(1), 1);
    }
    const auto got = ir::interpret(graph, inputs, {});
    ASSERT_EQ(got[0].shape(), (Shape{2, 1, 6}));
    for (size_t b = 0; b < 2; ++b) {
      for (size_t v = 0; v < 6; ++v) {
        EXPECT_EQ(got[0].values<float>()[b * 6 + v], want[0].values<float>()[(b * 5 + 4) * 6 + v]);
      }
    }
    EXPECT_EQ(got[1].shape(), (Shape{2, 5, 4}));  // another output, as before
  }
}

TEST(LastPlace, GraphsThatMixPlacesStayAsTheyAre) {
  for (const char* nodes : {
           "  p = MatMul(h, w)\n  y = Add(p, rows)\n",
           "  p = MatMul(h, w)\n  y = Reshape(p, sides)\n",
           "  y = Neg(x)\n",
       }) {
    ir::Graph graph = ir::parse_text(graph_text(nodes));
    ir::infer(graph);
    const std::string before = ir::to_text(graph);
    EXPECT_FALSE(keep_last_place(graph, 0)) << nodes;
    EXPECT_EQ(ir::to_text(graph), before);
  }
}

}  // namespace
}  // namespace stretto::runtime
