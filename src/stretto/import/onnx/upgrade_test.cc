// Old forms of operators: each model is written for the opset in question and run; expected values
// are worked out by hand from ONNX's description of that opset.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "stretto/import/onnx/test_model.h"
#include "stretto/import/onnx/upgrade.h"
#include "stretto/ir/interpreter.h"
#include "stretto/ir/operator.h"
#include "stretto/ir/text.h"

namespace stretto::onnx {
namespace {

using namespace testing;

// Outputs for x = 1, 2, 3, ... of the shape that the model asks for.
std::vector<std::vector<double>> run(const std::string& bytes) {
  const ImportedModel m = load(bytes);
  Tensor x(DType::kFloat32, *m.graph.value(m.graph.inputs[0]).shape);
  auto values = x.mutable_values<float>();
  std::iota(values.begin(), values.end(), 1.0f);
  std::vector<std::vector<double>> outputs;
  for (const Tensor& y : ir::interpret(m.graph, std::vector<Tensor>{x}))
    outputs.push_back(y.as_doubles());
  return outputs;
}

std::string one_node(const std::string& op, int64_t opset, const Names& dims, const Names& extra,
                     const std::vector<std::string>& attributes,
                     const std::vector<std::string>& initializers = {},
                     const Names& outputs = {"y"}) {
  Names inputs = {"x"};
  inputs.insert(inputs.end(), extra.begin(), extra.end());
  return model({.nodes = {node(op, inputs, outputs, attributes)},
                .inputs = {input("x", dims)},
                .outputs = {"y"},
                .initializers = initializers},
               opset);
}

using Values = std::vector<double>;

TEST(Upgrade, AxesBecameAnInput) {
  EXPECT_EQ(run(one_node("ReduceSum", 11, {"2", "3"}, {},
                         {attr_ints("axes", {1}), attr("keepdims", 0)}))[0],
            (Values{6, 15}));
  EXPECT_EQ(run(one_node("ReduceMax", 13, {"2", "3"}, {}, {attr_ints("axes", {-2})}))[0],
            (Values{4, 5, 6}));
  EXPECT_EQ(run(one_node("ReduceMean", 17, {"2", "3"}, {}, {}))[0], (Values{3.5}));
  const ImportedModel m =
      load(one_node("Unsqueeze", 11, {"2", "3"}, {}, {attr_ints("axes", {0, 3})}));
  EXPECT_EQ(*m.graph.value(m.graph.outputs[0]).shape, (Shape{1, 2, 3, 1}));
  const ImportedModel s =
      load(one_node("Squeeze", 12, {"1", "3", "1"}, {}, {attr_ints("axes", {2})}));
  EXPECT_EQ(*s.graph.value(s.graph.outputs[0]).shape, (Shape{1, 3}));
}

TEST(Upgrade, ClipLimitsBecameInputs) {
  EXPECT_EQ(run(one_node("Clip", 10, {"4"}, {}, {attr_float("min", 2), attr_float("max", 3)}))[0],
            (Values{2, 2, 3, 3}));
  EXPECT_EQ(run(one_node("Clip", 10, {"4"}, {}, {attr_float("max", 3)}))[0], (Values{1, 2, 3, 3}));
}

TEST(Upgrade, SlicePadSplitTopK) {
  EXPECT_EQ(
      run(one_node("Slice", 9, {"2", "3"}, {},
                   {attr_ints("starts", {1}), attr_ints("ends", {9}), attr_ints("axes", {1})}))[0],
      (Values{2, 3, 5, 6}));
  EXPECT_EQ(run(one_node("Slice", 9, {"2", "3"}, {},
                         {attr_ints("starts", {1, 0}), attr_ints("ends", {2, -1})}))[0],
            (Values{4, 5}));
  EXPECT_EQ(
      run(one_node("Pad", 10, {"2"}, {}, {attr_ints("pads", {1, 2}), attr_float("value", 9)}))[0],
      (Values{9, 1, 2, 9, 9}));
  EXPECT_EQ(run(one_node("Split", 11, {"3"}, {}, {attr_ints("split", {1, 2})}, {}, {"z", "y"}))[0],
            (Values{2, 3}));
  EXPECT_EQ(run(one_node("Split", 13, {"4"}, {}, {}, {}, {"z", "y"}))[0], (Values{3, 4}));
  EXPECT_EQ(run(one_node("TopK", 9, {"4"}, {}, {attr("k", 2)}, {}, {"y", "i"}))[0], (Values{4, 3}));
}

TEST(Upgrade, DropoutIsGone) {
  EXPECT_EQ(run(one_node("Dropout", 11, {"2"}, {}, {attr_float("ratio", 0.9f)}))[0],
            (Values{1, 2}));
  EXPECT_EQ(run(one_node("Dropout", 13, {"2"}, {"ratio"}, {}, {floats("ratio", {}, {0.9f})},
                         {"y", "mask"}))[0],
            (Values{1, 2}));
  EXPECT_EQ(
      run(model({.nodes = {node("Dropout", {"x"}, {"z", "mask"}), node("Not", {"mask"}, {"y"})},
                 .inputs = {input("x", {"2"})},
                 .outputs = {"y"}}))[0],
      (Values{0, 0}));
  EXPECT_NE(refusal(one_node("Dropout", 13, {"2"}, {"r", "t"}, {},
                             {floats("r", {}, {0.9f}), tensor("t", DataType::kBool, {}, "\1")}))
                .find("training mode"),
            std::string::npos);
}

TEST(Upgrade, SoftmaxOverAllAxesFromOneOn) {
  const auto softmax = [](const Values& x, size_t groups) {
    Values y = x;
    const size_t size = x.size() / groups;
    for (size_t g = 0; g < groups; ++g) {
      double sum = 0;
      for (size_t i = 0; i < size; ++i) sum += std::exp(x[g * size + i]);
      for (size_t i = 0; i < size; ++i) y[g * size + i] = std::exp(x[g * size + i]) / sum;
    }
    return y;
  };
  Values x(12);
  std::iota(x.begin(), x.end(), 1.0);
  const struct {
    int64_t opset, axis;
    size_t groups;
  } rows[] = {{12, 0, 1}, {12, 1, 2}, {12, 2, 6}, {12, -2, 2}, {13, 2, 6}};
  for (const auto& row : rows) {
    const Values y =
        run(one_node("Softmax", row.opset, {"2", "3", "2"}, {}, {attr("axis", row.axis)}))[0];
    const Values want = softmax(x, row.groups);
    for (size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(y[i], want[i], 1e-6) << row.opset << " " << row.axis;
    const Values log =
        run(one_node("LogSoftmax", row.opset, {"2", "3", "2"}, {}, {attr("axis", row.axis)}))[0];
    for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(log[i], std::log(want[i]), 1e-5);
  }
  // The default axis was 1. A matrix needs no detour.
  const std::string text = ir::to_text(load(one_node("Softmax", 12, {"2", "3"}, {}, {})).graph);
  EXPECT_NE(text.find("y: float32[2, 3] = Softmax(x) {axis = 1}"), std::string::npos) << text;
  EXPECT_NE(refusal(one_node("Softmax", 12, {"2", "3"}, {}, {attr("axis", 3)})).find("axis 3"),
            std::string::npos);
}

TEST(Upgrade, UpsampleAndResize) {
  const Values doubled = {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
  const std::string scales = floats("s", {4}, {1, 1, 2, 2});
  EXPECT_EQ(run(one_node("Upsample", 7, {"1", "1", "2", "2"}, {},
                         {attr_floats("scales", {1, 1, 2, 2})}))[0],
            doubled);
  EXPECT_EQ(run(one_node("Upsample", 9, {"1", "1", "2", "2"}, {"s"}, {}, {scales}))[0], doubled);
  EXPECT_EQ(run(one_node("Resize", 10, {"1", "1", "2", "2"}, {"s"}, {}, {scales}))[0], doubled);
  // Asymmetric coordinates: a new pixel between two, the last one repeated.
  EXPECT_EQ(run(one_node("Resize", 10, {"1", "1", "1", "2"}, {"s"}, {attr_text("mode", "linear")},
                         {floats("s", {4}, {1, 1, 1, 2})}))[0],
            (Values{1, 1.5, 2, 2}));
  // From opset 11 on, empty tensors stand for what is absent.
  EXPECT_EQ(run(one_node("Resize", 11, {"1", "1", "2", "2"}, {"none", "none", "sizes"},
                         {attr_text("coordinate_transformation_mode", "asymmetric"),
                          attr_text("nearest_mode", "floor")},
                         {floats("none", {0}, {}), int64s("sizes", {1, 1, 4, 4})}))[0],
            doubled);
}

TEST(Upgrade, ResizeWithTheHalfPixelsOfTensorFlow) {
  const auto resized = [](const std::string& nearest, const std::string& mode = "nearest") {
    return one_node("Resize", 11, {"1", "1", "1", "5"}, {"", "", "sizes"},
                    {attr_text("coordinate_transformation_mode", "tf_half_pixel_for_nn"),
                     attr_text("nearest_mode", nearest), attr_text("mode", mode)},
                    {int64s("sizes", {1, 1, 1, 3})});
  };
  // Coordinates 0.83, 2.5 and 4.17.
  EXPECT_EQ(run(resized("floor"))[0], (Values{1, 3, 5}));
  EXPECT_EQ(run(resized("round_prefer_floor"))[0], (Values{2, 3, 5}));
  EXPECT_NE(refusal(resized("ceil")).find("tf_half_pixel_for_nn"), std::string::npos);
  EXPECT_NE(refusal(resized("floor", "linear")).find("tf_half_pixel_for_nn"), std::string::npos);
}

TEST(Upgrade, Normalisations) {
  const std::vector<std::string> parts = {floats("s", {2}, {2, 1}), floats("b", {2}, {0, 1}),
                                          floats("m", {2}, {1, 2}), floats("v", {2}, {4, 1})};
  const Names names = {"s", "b", "m", "v"};
  const std::string old =
      one_node("BatchNormalization", 8, {"1", "2"}, names,
               {attr_float("epsilon", 0), attr_float("momentum", 0.9f), attr("spatial", 1)}, parts,
               {"y", "mean", "var", "saved_mean", "saved_var"});
  EXPECT_EQ(run(old)[0], (Values{0, 1}));
  EXPECT_NE(
      refusal(one_node("BatchNormalization", 8, {"1", "2"}, names, {attr("spatial", 0)}, parts))
          .find("spatial"),
      std::string::npos);
  // The statistics of one image: its own values.
  EXPECT_EQ(run(one_node("BatchNormalization", 15, {"1", "2"}, names, {attr("training_mode", 1)},
                         parts))[0],
            (Values{0, 1}));

  // Two groups of two channels of two pixels: each pair of channels is brought to mean 0,
  // deviation 1.
  const std::vector<std::string> groups = {floats("s", {2}, {1, 2}), floats("b", {2}, {0, 10})};
  const Values y = run(one_node("GroupNormalization", 18, {"1", "4", "2"}, {"s", "b"},
                                {attr("num_groups", 2), attr_float("epsilon", 0)}, groups))[0];
  const double step = 1 / std::sqrt(1.25);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(y[i], (static_cast<double>(i) - 1.5) * step, 1e-6);
    EXPECT_NEAR(y[i + 4], (static_cast<double>(i) - 1.5) * step * 2 + 10, 1e-6);
  }
}

TEST(Upgrade, ManyDroppedOutputsAreNotQuadratic) {
  Names outputs = {"y"};
  for (int i = 0; i < 50000; ++i) outputs.push_back("mask" + std::to_string(i));
  EXPECT_EQ(refusal(one_node("Dropout", 11, {"2"}, {}, {}, {}, outputs)), "");
}

TEST(Upgrade, CastNamesItsType) {
  const std::string text = ir::to_text(load(one_node("Cast", 9, {"2"}, {}, {attr("to", 7)})).graph);
  EXPECT_NE(text.find("y: int64[2] = Cast(x) {to = \"int64\"}"), std::string::npos) << text;
  EXPECT_EQ(refusal(one_node("Cast", 9, {"2"}, {}, {attr("to", 8)})),
            "Unsupported t.onnx: Cast \"cast\": string tensors are not supported");
}

TEST(Upgrade, SecondInputsBroadcastFromAnAxis) {
  const auto sum = [](std::vector<std::string> attributes, std::string other) {
    return one_node("Add", 6, {"1", "2", "3"}, {"b"}, std::move(attributes), {std::move(other)});
  };
  const std::vector<std::string> by_channel = {attr("broadcast", 1), attr("axis", 1)};
  EXPECT_EQ(run(sum(by_channel, floats("b", {2}, {10, 20})))[0], (Values{11, 12, 13, 24, 25, 26}));
  EXPECT_EQ(run(sum({attr("broadcast", 1), attr("axis", -2)}, floats("b", {2}, {10, 20})))[0],
            (Values{11, 12, 13, 24, 25, 26}));
  EXPECT_EQ(run(sum({attr("broadcast", 1)}, floats("b", {3}, {10, 20, 30})))[0],
            (Values{11, 22, 33, 14, 25, 36}));
  EXPECT_NE(refusal(sum({attr("broadcast", 1), attr("axis", 3)}, floats("b", {2}, {1, 2})))
                .find("axis 3 does not place shape 2 in"),
            std::string::npos);
}

TEST(Upgrade, TestModeWasAnAttribute) {
  EXPECT_EQ(run(one_node("Dropout", 6, {"2"}, {}, {attr("is_test", 1)}))[0], (Values{1, 2}));
  EXPECT_NE(refusal(one_node("Dropout", 6, {"2"}, {}, {})).find("training mode"),
            std::string::npos);
}

TEST(Upgrade, PReluSlopePerChannel) {
  const Values y =
      run(model({.nodes = {node("Neg", {"x"}, {"n"}), node("PRelu", {"n", "s"}, {"y"})},
                 .inputs = {input("x", {"1", "2", "3"})},
                 .outputs = {"y"},
                 .initializers = {floats("s", {2}, {1, 2})}},
                8))[0];
  EXPECT_EQ(y, (Values{-1, -2, -3, -8, -10, -12}));
}

TEST(Upgrade, ScatterWasRenamed) {
  EXPECT_EQ(run(one_node("Scatter", 9, {"3"}, {"i", "u"}, {},
                         {int64s("i", {2}), floats("u", {1}, {7})}))[0],
            (Values{1, 2, 7}));
}

TEST(Upgrade, EveryRowLeadsToAnOperator) {
  for (const UpgradeRow& row : upgrade_rows()) {
    const std::string_view name = upgraded_name(row.op, row.until_opset - 1);
    EXPECT_NE(ir::find_operator(name), nullptr) << name;
  }
}

}  // namespace
}  // namespace stretto::onnx
