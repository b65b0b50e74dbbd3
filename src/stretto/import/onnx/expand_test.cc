// Functions, branches and constants: what takes the place of a node.
#include <gtest/gtest.h>

#include "stretto/import/onnx/test_model.h"
#include "stretto/ir/interpreter.h"
#include "stretto/ir/text.h"

namespace stretto::onnx {
namespace {

using namespace testing;

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string call(const std::string& name, const Names& inputs, const Names& outputs,
                 const std::vector<std::string>& attributes = {}) {
  return node(name, inputs, outputs, attributes, {.domain = "local"});
}

GraphParts of(const std::vector<std::string>& nodes, const Names& outputs = {"y"}) {
  return {.nodes = nodes, .inputs = {input("x", {"2"})}, .outputs = outputs};
}

const std::string kLeaky =
    function({.name = "Leaky",
              .inputs = {"x"},
              .outputs = {"y"},
              .nodes = {node("LeakyRelu", {"x"}, {"y"},
                             {attr_reference("alpha", "slope", AttributeType::kFloat)})}});

TEST(Functions, AreExpandedWithTheirAttributes) {
  const ImportedModel m =
      load(model(of({call("Leaky", {"x"}, {"y"}, {attr_float("slope", 0.5f)})}), 17, {kLeaky}));
  EXPECT_EQ(ir::to_text(m.graph), R"(graph t
input x: float32[2]
y: float32[2] = LeakyRelu(x) {alpha = 0.5} as leaky/leakyrelu
output y
)");
}

TEST(Functions, LeaveOutWhatTheCallDoesNotGive) {
  const std::string text =
      ir::to_text(load(model(of({call("Leaky", {"x"}, {"y"})}), 17, {kLeaky})).graph);
  EXPECT_TRUE(contains(text, "LeakyRelu(x) as")) << text;
}

TEST(Functions, HaveDefaultsAndCallEachOther) {
  const std::string twice =
      function({.name = "Twice",
                .inputs = {"a"},
                .outputs = {"b"},
                .nodes = {call("Leaky", {"a"}, {"h"}, {attr_float("slope", 0.25f)}),
                          call("Leaky", {"h"}, {"b"},
                               {attr_reference("slope", "second", AttributeType::kFloat)})},
                .attribute_defaults = {attr_float("second", 0.75f)}});
  const ImportedModel m = load(model(of({call("Twice", {"x"}, {"y"})}), 17, {kLeaky, twice}));
  const Tensor x = Tensor::of<float>({2}, std::vector<float>{-4, 3});
  const auto y = ir::interpret(m.graph, std::vector<Tensor>{x});
  EXPECT_EQ(y[0].as_doubles(), (std::vector<double>{-0.75, 3}));
}

TEST(Functions, UpgradeByTheirOwnOpset) {
  const std::string old = function({.name = "Old",
                                    .inputs = {"x"},
                                    .outputs = {"y"},
                                    .nodes = {node("Clip", {"x"}, {"y"}, {attr_float("max", 1)})},
                                    .opset = 10});
  const ImportedModel m = load(model(of({call("Old", {"x"}, {"y"})}), 17, {old}));
  EXPECT_TRUE(contains(ir::to_text(m.graph), "Clip(x, _, old/clip/max)")) << ir::to_text(m.graph);
}

TEST(Functions, PassInputsThroughAndLeaveSomeOut) {
  const std::string pass = function({.name = "Pass",
                                     .inputs = {"x", "limit"},
                                     .outputs = {"x", "y"},
                                     .nodes = {node("Clip", {"x", "limit"}, {"y"})}});
  const ImportedModel m =
      load(model(of({call("Pass", {"x"}, {"p", "q"})}, {"p", "q"}), 17, {pass}));
  EXPECT_TRUE(contains(ir::to_text(m.graph), "output p, q"));
  EXPECT_TRUE(contains(ir::to_text(m.graph), "p: float32[2] = Identity(x)"));
}

TEST(Functions, DoNotRecur) {
  const std::string self = function(
      {.name = "Self", .inputs = {"x"}, .outputs = {"y"}, .nodes = {call("Self", {"x"}, {"y"})}});
  EXPECT_TRUE(
      contains(refusal(model(of({call("Self", {"x"}, {"y"})}), 17, {self})), "without end"));
}

TEST(Functions, DoNotGrowWithoutEnd) {
  // 2^40 nodes from two kilobytes.
  std::vector<std::string> functions;
  for (int i = 0; i < 40; ++i) {
    const std::string next = "F" + std::to_string(i + 1);
    functions.push_back(function({.name = "F" + std::to_string(i),
                                  .inputs = {"x"},
                                  .outputs = {"y"},
                                  .nodes = {call(next, {"x"}, {"h"}), call(next, {"h"}, {"y"})}}));
  }
  functions.push_back(function(
      {.name = "F40", .inputs = {"x"}, .outputs = {"y"}, .nodes = {node("Relu", {"x"}, {"y"})}}));
  EXPECT_TRUE(contains(refusal(model(of({call("F0", {"x"}, {"y"})}), 17, functions)),
                       "expanding the model's functions"));
}

TEST(Functions, WithManyInputsAreNotQuadratic) {
  // 5,000 calls of a function with 5,000 inputs, none of which is given.
  Names names;
  std::vector<std::string> calls;
  for (int i = 0; i < 5000; ++i) names.push_back("i" + std::to_string(i));
  for (int i = 0; i < 5000; ++i) calls.push_back(call("Wide", {}, {}));
  const std::string wide = function({.name = "Wide", .inputs = names});
  EXPECT_TRUE(
      contains(refusal(model(of(calls, {"x"}), 17, {wide})), "expanding the model's functions"));
}

TEST(Functions, RefuseWrongCalls) {
  EXPECT_TRUE(contains(refusal(model(of({call("Leaky", {"x", "x"}, {"y"})}), 17, {kLeaky})),
                       "more inputs"));
  EXPECT_TRUE(contains(refusal(model(of({call("Leaky", {"x"}, {"y", "z"})}), 17, {kLeaky})),
                       "more outputs"));
  EXPECT_TRUE(contains(refusal(model(of({call("Leaky", {"x"}, {"y"})}), 17, {kLeaky, kLeaky})),
                       "defined twice"));
  EXPECT_TRUE(
      contains(refusal(model(of({call("Other", {"x"}, {"y"})}), 17, {kLeaky})), "local.Other"));
}

std::string branch(const std::string& op) {
  return graph({.nodes = {node(op, {"x"}, {"out"})}, .outputs = {"out"}});
}

TEST(Branches, AreTakenWhenTheConditionIsKnown) {
  // The condition comes out of shape arithmetic, as exporters write it.
  for (const auto& [rank, op] : {std::pair<int64_t, std::string>{1, "Relu"}, {2, "Neg"}}) {
    GraphParts parts = of({node("Shape", {"x"}, {"s"}), node("Size", {"s"}, {"r"}),
                           node("Equal", {"r", "rank"}, {"c"}),
                           node("If", {"c"}, {"y"},
                                {attr_graph("then_branch", branch("Relu")),
                                 attr_graph("else_branch", branch("Neg"))})});
    parts.initializers = {tensor("rank", DataType::kInt64, {}, raw<int64_t>({rank}))};
    const std::string text = ir::to_text(load(model(parts)).graph);
    EXPECT_TRUE(contains(text, "y: float32[2] = " + op + "(x)")) << text;
  }
}

TEST(Branches, ThatDependOnDataAreRefused) {
  GraphParts parts = of({node(
      "If", {"c"}, {"y"},
      {attr_graph("then_branch", branch("Relu")), attr_graph("else_branch", branch("Neg"))})});
  parts.inputs.push_back(input("c", {}, DataType::kBool));
  EXPECT_EQ(
      refusal(model(parts)),
      "Unsupported t.onnx: If \"if\": its condition must be known when the model is optimised, but "
      "it depends on the model's input values");
}

TEST(Branches, NestedTooDeepAreRefused) {
  std::string inner = branch("Relu");
  for (int depth = 0; depth < 80; ++depth) {
    inner = graph({.nodes = {node("If", {"c"}, {"out"}, {attr_graph("then_branch", inner)})},
                   .outputs = {"out"}});
  }
  GraphParts parts = of({node("If", {"c"}, {"y"}, {attr_graph("then_branch", inner)})});
  parts.initializers = {tensor("c", DataType::kBool, {}, std::string(1, '\1'))};
  EXPECT_TRUE(contains(refusal(model(parts)), "nested too deeply"));
}

TEST(Constants, OfEveryKind) {
  const auto constant = [](const std::string& attribute) {
    return ir::to_text(load(model(of({node("Constant", {}, {"y"}, {attribute})}))).graph);
  };
  EXPECT_TRUE(contains(constant(attr("value_int", 3)), "constant y: int64[] = {3}"));
  EXPECT_TRUE(contains(constant(attr_ints("value_ints", {3, 4})), "constant y: int64[2] = {3, 4}"));
  EXPECT_TRUE(contains(constant(attr_float("value_float", 0.5f)), "constant y: float32[] = {0.5}"));
  EXPECT_TRUE(contains(constant(attr_floats("value_floats", {1, 2})),
                       "constant y: float32[2] = {1.0, 2.0}"));
  EXPECT_TRUE(
      contains(constant(attr_tensor("value", int64s("", {7}))), "constant y: int64[1] = {7}"));
  const auto refused = [](const std::vector<std::string>& attributes) {
    return refusal(model(of({node("Constant", {}, {"y"}, attributes)})));
  };
  EXPECT_TRUE(contains(refused({attr_text("value_string", "a")}), "Unsupported"));
  EXPECT_TRUE(contains(refused({}), "one attribute"));
  EXPECT_TRUE(contains(refused({attr("value", 3)}), "no tensor"));
  EXPECT_TRUE(contains(refused({attr_text("value_int", "a")}), "expected an integer"));
}

}  // namespace
}  // namespace stretto::onnx
