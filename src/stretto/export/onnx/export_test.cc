// What is written is what the importer reads again: the same graph, with the same constants.
#include "stretto/export/onnx/export.h"

#include <gtest/gtest.h>

#include <cstring>

#include "stretto/base/error.h"
#include "stretto/export/onnx/messages.h"
#include "stretto/import/onnx/import.h"
#include "stretto/ir/operator.h"
#include "stretto/ir/text.h"

namespace stretto::onnx {
namespace {

ir::Graph read_again(const ExportedModel& model) {
  const std::string bytes = model.bytes.joined();
  return import_onnx_bytes(std::as_bytes(std::span(bytes)), "graph.onnx").graph;
}

// Written and read, the graph has the same text, whose names and attributes say everything.
void expect_same(const std::string& text) {
  ir::Graph graph = ir::parse_text(text);
  graph.name = "graph";
  ir::Graph again = read_again(export_graph(graph, "graph.onnx.data"));
  EXPECT_EQ(ir::to_text(again), ir::to_text(graph));
}

TEST(ExportOnnx, EveryKindOfAttributeComesBack) {
  expect_same(R"(graph graph
input x: float32[1, 4, 6, 6]
constant w: float32[8, 4, 3, 3] = random(1)
y = Conv(x, w) {dilations = [1, 1], pads = [1, 1, 1, 1], strides = [2, 2]}
z = LeakyRelu(y) {alpha = 0.25}
t = Cast(z) {to = "float16"}
output t
)");
}

TEST(ExportOnnx, PackedElementsComeBack) {
  for (const DType dtype : {DType::kInt4, DType::kUInt2, DType::kFloat4E2M1}) {
    ir::Graph graph;
    graph.name = "graph";
    Tensor values(dtype, {5});
    const unsigned char bits[] = {1, 2, 3, 0, 2};
    std::memcpy(values.mutable_data(), bits, sizeof bits);
    const ir::ValueId c = graph.add_constant("c", values);
    const ir::ValueId y = graph.add_value("y");
    ir::Attributes attributes;
    attributes.set("to", std::string("float32"));
    graph.add_node("Cast", {c}, {y}, attributes, "cast");
    graph.outputs = {y};
    ir::infer(graph);
    const ir::Graph again = read_again(export_graph(graph, ""));
    const auto& value = again.value(again.nodes[0].inputs[0]);
    ASSERT_EQ(value.dtype, dtype);
    EXPECT_EQ(std::memcmp(value.constant.data(), bits, sizeof bits), 0);
  }
}

TEST(ExportOnnx, OperatorsThatOnnxLacksAreNamed) {
  ir::Graph graph;
  graph.name = "fused";
  const ir::ValueId x = graph.add_value("x", DType::kFloat32, Shape{2, 3});
  graph.inputs = {x};
  const ir::ValueId w = graph.add_constant("w", Tensor(DType::kFloat32, {3, 4}));
  const ir::ValueId y = graph.add_value("y"), z = graph.add_value("z");
  graph.add_node("stretto.Linear", {x, w}, {y}, {}, "first");
  graph.add_node("Relu", {y}, {z}, {}, "second");
  graph.outputs = {z};
  ir::infer(graph);
  try {
    export_graph(graph, "");
    FAIL();
  } catch (const Unsupported& error) {
    EXPECT_NE(std::string(error.what()).find("stretto.Linear (1 node, the first is \"first\")"),
              std::string::npos)
        << error.what();
  }
}

// TopK has two outputs in ONNX, whichever is read.
TEST(ExportOnnx, OutputsThatOnlyOnnxWantsHaveNames) {
  for (const bool values : {true, false}) {
    ir::Graph graph;
    graph.name = "top";
    const ir::ValueId x = graph.add_value("0.0.unread", DType::kFloat32, Shape{5});
    graph.inputs = {x};
    const ir::ValueId k = graph.add_constant("k", Tensor::int64s(std::vector<int64_t>{2}));
    const ir::ValueId top = graph.add_value("top");
    graph.add_node("TopK", {x, k}, values ? std::vector{top} : std::vector{ir::kNone, top}, {},
                   "first");
    graph.outputs = {top};
    ir::infer(graph);
    const std::string text = export_graph(graph, "").bytes.joined();
    EXPECT_NE(text.find(values ? "0.1.unread" : "0.0.unread_"), text.npos);
  }
}

TEST(ExportOnnx, TheOpsetIsTheOldestThatHasAll) {
  const auto opset = [](const std::string& text) {
    return export_graph(ir::parse_text(text), "").opset;
  };
  EXPECT_EQ(opset("graph g\ninput x: float32[2, 3]\ny = Relu(x)\noutput y\n"), 21);
  EXPECT_EQ(opset("graph g\ninput x: float32[2, 3]\ny = Swish(x)\noutput y\n"), 24);
}

}  // namespace
}  // namespace stretto::onnx
