#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/ir/interpreter.h"
#include "stretto/ir/operator.h"
#include "stretto/ir/text.h"
#include "stretto/passes/pipeline.h"

namespace stretto::passes {
namespace {

// Two 3x3 heads of one trunk; the third differs in what `third` says.
std::string heads(const std::string& third) {
  return R"(
    graph heads
    input x: float32[1, 8, 6, 5]
    constant w1: float32[16, 8, 3, 3] = random(1)
    constant w2: float32[32, 8, 3, 3] = random(2)
    constant b2: float32[32] = random(3)
    constant w3: float32[16, 8, 3, 3] = random(4)
    a = Conv(x, w1) {pads = [1, 1, 1, 1]}
    b = Conv(x, w2, b2) {pads = [1, 1, 1, 1]}
    c = Conv(x, w3) )" +
         third + R"(
    ya = Relu(a)
    yb = Relu(b)
    yc = Relu(c)
    za = Exp(ya)
    zb = Exp(yb)
    zc = Exp(yc)
    output za, zb, zc
  )";
}

int convolutions(const ir::Graph& graph) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(), [](const auto& n) {
    return n.op->name == "stretto.Conv";
  }));
}

void expect_same(const ir::Graph& before, const ir::Graph& after) {
  Tensor x(DType::kFloat32, *before.value(before.inputs[0]).shape);
  auto values = x.mutable_values<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 13) * 0.1f - 0.6f;
  const auto a = ir::interpret(before, std::vector<Tensor>{x});
  const auto b = ir::interpret(after, std::vector<Tensor>{x});
  for (size_t i = 0; i < a.size(); ++i) {
    const auto u = a[i].values<float>(), v = b[i].values<float>();
    EXPECT_TRUE(std::equal(u.begin(), u.end(), v.begin(), v.end()));
  }
}

TEST(MergeConvs, HeadsOfOneTrunkBecomeOneConvolution) {
  const ir::Graph before = ir::parse_text(heads("{pads = [1, 1, 1, 1]}"));
  ir::Graph after = before;
  run_pipeline(after);
  EXPECT_EQ(convolutions(after), 1);
  expect_same(before, after);
}

TEST(MergeConvs, AnotherWindowStaysAlone) {
  const ir::Graph before = ir::parse_text(heads("{pads = [2, 2, 2, 2], dilations = [2, 2]}"));
  ir::Graph after = before;
  run_pipeline(after);
  EXPECT_EQ(convolutions(after), 2);
  expect_same(before, after);
}

TEST(MergeConvs, CanBeLeftOut) {
  ir::Graph graph = ir::parse_text(heads("{pads = [1, 1, 1, 1]}"));
  run_pipeline(graph, {.disabled = {"merge-convs"}});
  EXPECT_EQ(convolutions(graph), 3);
}

}  // namespace
}  // namespace stretto::passes
