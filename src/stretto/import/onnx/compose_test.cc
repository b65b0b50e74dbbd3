// Operators that become others, and loops that are unrolled: expected values are worked out by
// hand.
#include "stretto/import/onnx/compose.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "stretto/import/onnx/test_model.h"
#include "stretto/ir/interpreter.h"
#include "stretto/ir/text.h"

namespace stretto::onnx {
namespace {

using namespace testing;
using Values = std::vector<double>;

// All outputs for x = 1, 2, 3, ... of the type and shape that the model asks for.
std::vector<Values> run(const std::string& bytes) {
  const ImportedModel m = load(bytes);
  std::vector<Tensor> inputs;
  for (ir::ValueId id : m.graph.inputs) {
    Tensor x(DType::kFloat32, *m.graph.value(id).shape);
    auto values = x.mutable_values<float>();
    std::iota(values.begin(), values.end(), 1.0f);
    inputs.push_back(x.converted(m.graph.value(id).dtype));
  }
  std::vector<Values> outputs;
  for (const Tensor& y : ir::interpret(m.graph, inputs)) outputs.push_back(y.as_doubles());
  return outputs;
}

std::string one_node(const std::string& op, const Names& dims,
                     const std::vector<std::string>& attributes, const Names& extra = {},
                     const std::vector<std::string>& initializers = {},
                     const NodeOptions& options = {}) {
  Names inputs = {"x"};
  inputs.insert(inputs.end(), extra.begin(), extra.end());
  return model({.nodes = {node(op, inputs, {"y"}, attributes, options)},
                .inputs = {input("x", dims)},
                .outputs = {"y"},
                .initializers = initializers},
               24);
}

TEST(Compose, NormsOfNothingAreNothing) {
  const Values y = run(model({.nodes = {node("Sub", {"x", "half"}, {"z"}),
                                        node("LpNormalization", {"z"}, {"y"}, {attr("p", 1)})},
                              .inputs = {input("x", {"2", "2"})},
                              .outputs = {"y"},
                              .initializers = {floats("half", {2, 2}, {1, 2, 0, 3})}}))[0];
  EXPECT_EQ(y, (Values{0, 0, 0.75, 0.25}));
}

TEST(Compose, CentreIsCutAndPadded) {
  const std::string shape = int64s("s", {4, 1});
  EXPECT_EQ(run(one_node("CenterCropPad", {"1", "3"}, {}, {"s"}, {shape}))[0],
            (Values{0, 2, 0, 0}));
}

TEST(Compose, FeaturesOfAnotherDomain) {
  const NodeOptions ml{.domain = "ai.onnx.ml"};
  EXPECT_EQ(run(one_node("Binarizer", {"3"}, {attr_float("threshold", 2)}, {}, {}, ml))[0],
            (Values{0, 0, 1}));
  EXPECT_EQ(
      run(one_node("ArrayFeatureExtractor", {"2", "3"}, {}, {"i"}, {int64s("i", {2, 0})}, ml))[0],
      (Values{3, 1, 6, 4}));
}

TEST(Compose, WindowsOfOneNumber) {
  const std::string size = int64s("n", {1});
  const auto window = [&](const char* op, int periodic) {
    const std::vector<std::string> nodes = {node("Squeeze", {"n"}, {"one"}),
                                            node(op, {"one"}, {"y"}, {attr("periodic", periodic)})};
    return run(model({.nodes = nodes, .outputs = {"y"}, .initializers = {size}}))[0];
  };
  EXPECT_EQ(window("HannWindow", 1), (Values{0}));  // where a longer window begins
  EXPECT_EQ(window("HannWindow", 0), (Values{1}));
}

TEST(Compose, GlobalLpPoolOfAnyPower) {
  const std::string x = floats("x", {1, 2, 2}, {3, -4, 0, 2});
  for (const auto& [p, wanted] : {std::pair<int, Values>{1, {7, 2}}, {2, {5, 2}}}) {
    EXPECT_EQ(run(model({.nodes = {node("GlobalLpPool", {"x"}, {"y"}, {attr("p", p)})},
                         .outputs = {"y"},
                         .initializers = {x}}))[0],
              wanted);
  }
  const Values cubes = run(model({.nodes = {node("GlobalLpPool", {"x"}, {"y"}, {attr("p", 3)})},
                                  .outputs = {"y"},
                                  .initializers = {x}}))[0];
  EXPECT_NEAR(cubes[0], std::cbrt(91.0), 1e-6);
}

TEST(Compose, HalvesAreComputedInFloat32) {
  const std::string bytes =
      model({.nodes = {node("Add", {"x", "x"}, {"d"}), node("Relu", {"d"}, {"y"})},
             .inputs = {input("x", {"2"}, DataType::kFloat16)},
             .outputs = {"y"}});
  const ImportedModel m = load(bytes);
  EXPECT_EQ(m.graph.value(m.graph.outputs[0]).dtype, DType::kFloat16);
  EXPECT_EQ(run(bytes)[0], (Values{2, 4}));
  const std::string text = ir::to_text(m.graph);
  EXPECT_NE(text.find("float32[2] = Add("), std::string::npos) << text;
}

TEST(Compose, ZerosAreQuantizedWithAScaleOfOne) {
  const std::vector<Values> y =
      run(model({.nodes = {node("DynamicQuantizeLinear", {"zeros"}, {"q", "scale", "zero"})},
                 .outputs = {"q", "scale", "zero"},
                 .initializers = {floats("zeros", {2}, {0, 0})}}));
  EXPECT_EQ(y, (std::vector<Values>{{0, 0}, {1}, {0}}));
}

TEST(Compose, StatesThatBeginAreHalvesLikeTheInputs) {
  const std::vector<std::string> attributes = {attr("q_num_heads", 1), attr("kv_num_heads", 1),
                                               attr_text("update_rule", "linear")};
  const std::string bytes =
      model({.nodes = {node("LinearAttention", {"x", "x", "x"}, {"y", "s"}, attributes)},
             .inputs = {input("x", {"1", "2", "2"}, DataType::kFloat16)},
             .outputs = {"y", "s"}},
            27);
  const ImportedModel m = load(bytes);
  for (ir::ValueId id : m.graph.outputs) EXPECT_EQ(m.graph.value(id).dtype, DType::kFloat16);
}

TEST(Compose, TrainedStatisticsAreThoseOfTheBatch) {
  const std::vector<std::string> channel = {floats("one", {1}, {1}), floats("zero", {1}, {0}),
                                            floats("mean", {1}, {10}), floats("var", {1}, {20})};
  const std::vector<Values> y = run(model(
      {.nodes = {node(
           "BatchNormalization", {"x", "one", "zero", "mean", "var"}, {"y", "m", "v"},
           {attr("training_mode", 1), attr_float("momentum", 0.5f), attr_float("epsilon", 0)})},
       .inputs = {input("x", {"3", "1"})},
       .outputs = {"y", "m", "v"},
       .initializers = channel}));
  EXPECT_NEAR(y[0][0], -1.2247448, 1e-6);  // -1 / sqrt(2 / 3)
  EXPECT_EQ(y[1], (Values{6}));
  EXPECT_NEAR(y[2][0], 10 + 1.0 / 3, 1e-6);
}

std::string sum_body() {
  return graph({.nodes = {node("Add", {"s", "e"}, {"next"}), node("Identity", {"next"}, {"seen"})},
                .inputs = {input("s", {"2"}), input("e", {"2"})},
                .outputs = {"next", "seen"}});
}

TEST(Unroll, ScanAddsUp) {
  const std::vector<std::string> attributes = {attr_graph("body", sum_body()),
                                               attr("num_scan_inputs", 1)};
  const GraphParts parts{.nodes = {node("Scan", {"zero", "x"}, {"last", "all"}, attributes)},
                         .inputs = {input("x", {"3", "2"})},
                         .outputs = {"last", "all"},
                         .initializers = {floats("zero", {2}, {0, 0})}};
  const std::vector<Values> y = run(model(parts));
  EXPECT_EQ(y[0], (Values{9, 12}));
  EXPECT_EQ(y[1], (Values{1, 2, 4, 6, 9, 12}));
}

TEST(Unroll, ScanGoesBackwards) {
  const std::vector<std::string> attributes = {
      attr_graph("body", sum_body()),     attr("num_scan_inputs", 1),
      attr_ints("scan_input_axes", {1}),  attr_ints("scan_input_directions", {1}),
      attr_ints("scan_output_axes", {1}), attr_ints("scan_output_directions", {1})};
  const GraphParts parts{.nodes = {node("Scan", {"zero", "x"}, {"last", "all"}, attributes)},
                         .inputs = {input("x", {"2", "3"})},
                         .outputs = {"all"},
                         .initializers = {floats("zero", {2}, {0, 0})}};
  EXPECT_EQ(run(model(parts))[0], (Values{6, 5, 3, 15, 11, 6}));
}

// Doubles x while fewer than `most` turns are done.
std::string loop(const std::string& trips, const std::vector<std::string>& initializers,
                 int64_t most) {
  const std::string body =
      graph({.nodes = {node("Add", {"v", "v"}, {"w"}), node("Less", {"i", "most"}, {"again"})},
             .inputs = {input("i", {}, DataType::kInt64), input("c", {}, DataType::kBool),
                        input("v", {"2"})},
             .outputs = {"again", "w", "v"},
             .initializers = {tensor("most", DataType::kInt64, {}, raw<int64_t>({most}))}});
  return model({.nodes = {node("Loop", {trips, "", "x"}, {"y", "all"}, {attr_graph("body", body)})},
                .inputs = {input("x", {"2"})},
                .outputs = {"y", "all"},
                .initializers = initializers});
}

TEST(Unroll, LoopsEndByCountOrCondition) {
  const std::string three = tensor("n", DataType::kInt64, {}, raw<int64_t>({3}));
  EXPECT_EQ(run(loop("n", {three}, 99))[0], (Values{8, 16}));
  EXPECT_EQ(run(loop("n", {three}, 99))[1], (Values{1, 2, 2, 4, 4, 8}));
  EXPECT_EQ(run(loop("n", {three}, 1))[0], (Values{4, 8}));
  EXPECT_EQ(run(loop("", {}, 3))[0], (Values{16, 32}));
}

TEST(Unroll, LoopsThatNeverEndAreRefused) {
  EXPECT_NE(
      refusal(loop("", {}, INT64_MAX)).find("expanding the model's functions and loops makes more"),
      std::string::npos);
  const std::string body =
      graph({.nodes = {node("Identity", {"c"}, {"d"})},
             .inputs = {input("i", {}, DataType::kInt64), input("c", {}, DataType::kBool)},
             .outputs = {"d"}});
  EXPECT_NE(refusal(model({.nodes = {node("Loop", {"x", ""}, {}, {attr_graph("body", body)}),
                                     node("Relu", {"f"}, {"y"})},
                           .inputs = {input("x", {}, DataType::kInt64), input("f", {"1"})},
                           .outputs = {"y"}}))
                .find("the trip count must be known when the model is optimised"),
            std::string::npos);
}

}  // namespace
}  // namespace stretto::onnx
