// Structure: inputs, outputs, names, order, what is refused and how.
#include <gtest/gtest.h>

#include "stretto/import/onnx/test_model.h"
#include "stretto/ir/text.h"

namespace stretto::onnx {
namespace {

using namespace testing;
using ::testing::Test;

std::string text_of(const std::string& bytes, const ImportOptions& options = {}) {
  return ir::to_text(load(bytes, options).graph);
}

TEST(Import, ReadsASmallModel) {
  const ImportedModel m =
      load(model({.nodes = {node("Add", {"x", "w"}, {"s"}), node("Relu", {"s"}, {"y"})},
                  .inputs = {input("x", {"2", "2"})},
                  .outputs = {"y"},
                  .initializers = {floats("w", {2}, {1, -2})}}));
  EXPECT_EQ(m.opset, 17);
  EXPECT_EQ(m.producer, "tests");
  EXPECT_TRUE(m.notes.empty());
  EXPECT_EQ(ir::to_text(m.graph), R"(graph t
input x: float32[2, 2]
constant w: float32[2] = {1.0, -2.0}
s: float32[2, 2] = Add(x, w) as add
y: float32[2, 2] = Relu(s) as relu
output y
)");
}

TEST(Import, PutsNodesInOrder) {
  const std::string text =
      text_of(model({.nodes = {node("Relu", {"s"}, {"y"}), node("Neg", {"x"}, {"s"})},
                     .inputs = {input("x", {"2"})},
                     .outputs = {"y"}}));
  EXPECT_LT(text.find("Neg"), text.find("Relu"));
}

TEST(Import, InitialisersThatAreInputsToo) {
  const ImportedModel m = load(model({.nodes = {node("Add", {"x", "w"}, {"y"})},
                                      .inputs = {input("w", {"1"}), input("x", {"1"})},
                                      .outputs = {"y"},
                                      .initializers = {floats("w", {1}, {3})}}));
  ASSERT_EQ(m.graph.inputs.size(), 1u);
  EXPECT_EQ(m.graph.value(m.graph.inputs[0]).name, "x");
}

TEST(Import, AnInputMayBeAnOutput) {
  const ImportedModel m =
      load(model({.nodes = {}, .inputs = {input("x", {"1"})}, .outputs = {"x"}}));
  EXPECT_EQ(m.graph.inputs, m.graph.outputs);
}

GraphParts relu_of(const Names& dims) {
  return {.nodes = {node("Relu", {"x"}, {"y"})}, .inputs = {input("x", dims)}, .outputs = {"y"}};
}

TEST(Shapes, AnOpenBatchIsOne) {
  const ImportedModel m = load(model(relu_of({"N", "3"})));
  EXPECT_EQ(*m.graph.value(m.graph.inputs[0]).shape, (Shape{1, 3}));
  ASSERT_EQ(m.notes.size(), 1u);
  EXPECT_EQ(m.notes[0], "input x is Nx3: a batch of 1 was assumed");
  EXPECT_EQ(*load(model(relu_of({"-1", "3"}))).graph.values[0].shape, (Shape{1, 3}));
}

TEST(Shapes, OtherOpenDimensionsMustBeGiven) {
  EXPECT_EQ(
      refusal(model(relu_of({"N", "3", "h", ""}))),
      "InvalidArgument t.onnx: input x is Nx3xhx?, which leaves dimension 2 open; give it a shape, "
      "as in --shape x=1x3x224x224");
  const ImportOptions options{.shapes = {{"x", {4, 3, 8, 9}}}};
  EXPECT_EQ(*load(model(relu_of({"N", "3", "h", ""})), options).graph.values[0].shape,
            (Shape{4, 3, 8, 9}));
}

TEST(Shapes, GivenOnesMustFit) {
  EXPECT_EQ(refusal(model(relu_of({"N", "3"})), {.shapes = {{"x", {1, 4}}}}),
            "InvalidArgument t.onnx: input x is Nx3, the shape given for it is 1x4");
  EXPECT_EQ(refusal(model(relu_of({"N", "3"})), {.shapes = {{"x", {1, 3, 1}}}}),
            "InvalidArgument t.onnx: input x is Nx3, the shape given for it is 1x3x1");
  EXPECT_EQ(refusal(model(relu_of({"N", "3"})), {.shapes = {{"z", {1, 3}}}}),
            "InvalidArgument t.onnx: a shape is given for z, but the inputs are x");
}

TEST(Shapes, OneSymbolIsOneNumber) {
  const std::string two =
      model({.nodes = {node("Add", {"a", "b"}, {"y"})},
             .inputs = {input("a", {"1", "length"}), input("b", {"1", "length"})},
             .outputs = {"y"}});
  EXPECT_EQ(*load(two, {.shapes = {{"b", {1, 7}}}}).graph.values[0].shape, (Shape{1, 7}));
  EXPECT_EQ(refusal(two, {.shapes = {{"a", {1, 6}}, {"b", {1, 7}}}}),
            "InvalidArgument t.onnx: input b: dimension length is 7 here and 6 in another input");
}

// Writers call all dimensions that they know nothing of '?', or number them anew for every input.
TEST(Shapes, PlaceholdersAreNoSymbols) {
  for (const char* name : {"?", "??", "", "unk__", "unk__612", "None", "-1"}) {
    const std::string two =
        model({.nodes = {node("Relu", {"a"}, {"x"}), node("Relu", {"b"}, {"y"})},
               .inputs = {input("a", {name, name}), input("b", {"1", name})},
               .outputs = {"x", "y"}});
    const ir::Graph graph = load(two, {.shapes = {{"a", {2, 6}}, {"b", {1, 7}}}}).graph;
    EXPECT_EQ(*graph.value(graph.inputs[0]).shape, (Shape{2, 6})) << name;
    EXPECT_EQ(*graph.value(graph.inputs[1]).shape, (Shape{1, 7})) << name;
    EXPECT_NE(refusal(two, {.shapes = {{"a", {2, 6}}}}).find("leaves dimension 1 open"),
              std::string::npos)
        << name;
  }
  for (const char* name : {"unk__a", "N?", "None_1"}) {
    const std::string named = model({.nodes = {node("Add", {"a", "b"}, {"y"})},
                                     .inputs = {input("a", {"1", name}), input("b", {"1", name})},
                                     .outputs = {"y"}});
    EXPECT_EQ(*load(named, {.shapes = {{"b", {1, 7}}}}).graph.values[0].shape, (Shape{1, 7}));
  }
}

TEST(Refusals, NameEveryMissingOperatorAtOnce) {
  EXPECT_EQ(
      refusal(model({.nodes = {node("ImageDecoder", {"x"}, {"a"}), node("Sparkle", {"a"}, {"b"}),
                               node("Sparkle", {"b"}, {"c"}),
                               node("Sampling", {"c"}, {"d"}, {}, {.domain = "com.microsoft"}),
                               node("Conv", {"d"}, {"y"}, {}, {.domain = "com.microsoft.nchwc"})},
                     .inputs = {input("x", {"1"})},
                     .outputs = {"y"}})),
      "Unsupported t.onnx: 4 operators are not supported:\n"
      "  ImageDecoder (1 node, first \"imagedecoder\")\n"
      "  Sparkle (2 nodes, first \"sparkle\")\n"
      "  com.microsoft.Sampling (1 node, first \"sampling\": an operator of ONNX Runtime's own; "
      "use "
      "the model that its optimiser or quantiser took)\n"
      "  com.microsoft.nchwc.Conv (1 node, first \"conv\": a layout that ONNX Runtime's optimiser "
      "writes for one machine; use the model that it took, or save it at ORT_ENABLE_EXTENDED)");
}

TEST(Refusals, NameTheNode) {
  const auto broken = [](const std::vector<std::string>& nodes, const Names& outputs = {"y"}) {
    return refusal(model({.nodes = nodes, .inputs = {input("x", {"2", "3"})}, .outputs = outputs}));
  };
  EXPECT_EQ(
      broken({node("Relu", {"w"}, {"y"})}),
      "FormatError t.onnx (byte 19): Relu \"relu\" needs \"w\", which nothing in the model makes");
  EXPECT_EQ(broken({node("Relu", {"x"}, {"z"})}),
            "FormatError t.onnx (byte 17): the graph's output needs \"y\", which nothing in the "
            "model makes");
  EXPECT_NE(broken({node("Relu", {"x"}, {"y"}), node("Neg", {"x"}, {"y"})})
                .find("value \"y\" is made twice, by nodes \"relu\" and \"neg\""),
            std::string::npos);
  EXPECT_NE(broken({node("Relu", {"x"}, {"x"})}).find("depends on its own result"),
            std::string::npos);
  EXPECT_NE(
      broken({node("Size", {"y"}, {"x"}), node("Constant", {}, {"y"}, {attr("value_int", 1)})})
          .find("value \"x\" is defined twice"),
      std::string::npos);
  EXPECT_NE(broken({node("Relu", {"b"}, {"y"}), node("Neg", {"y"}, {"b"})})
                .find("node Relu \"relu\" depends on its own result"),
            std::string::npos);
  EXPECT_NE(broken({node("Flatten", {"x"}, {"y"}, {attr("axis", 5)})})
                .find("InvalidArgument t.onnx: Flatten \"flatten\": "),
            std::string::npos);
  EXPECT_NE(
      broken({node("Relu", {"x"}, {"y"}, {attr("sparkle", 5)})}).find("unknown attribute sparkle"),
      std::string::npos);
  EXPECT_NE(broken({node("Relu", {"x", "x"}, {"y"})}).find("at most 1 inputs, got 2"),
            std::string::npos);
  EXPECT_NE(broken({node("Relu", {"x"}, {"y"}, {attr("a", 1), attr("a", 2)})}).find("stands twice"),
            std::string::npos);
  EXPECT_NE(broken({}, {}).find("no outputs"), std::string::npos);
}

TEST(Refusals, OldOpsets) {
  EXPECT_EQ(
      refusal(model(relu_of({"1"}), 5)),
      "Unsupported t.onnx: opset 5 is too old, 6 is the oldest supported; convert it with ONNX's "
      "version converter or export it again");
  EXPECT_EQ(load(model(relu_of({"1"}), 99)).notes.size(), 1u);
}

TEST(Refusals, InputsThatAreNoShapes) {
  EXPECT_NE(refusal(model(relu_of({"-2"}))).find("FormatError"), std::string::npos);
  EXPECT_NE(refusal(model(relu_of({"4000000000", "4000000000"}))).find("2^40"), std::string::npos);
  EXPECT_NE(refusal(model(relu_of(Names(65, "1")))).find("65 dimensions"), std::string::npos);
  GraphParts parts = relu_of({"1"});
  parts.inputs = {input("x", {"1"}, DataType::kString)};
  EXPECT_EQ(refusal(model(parts)), "Unsupported t.onnx: input x: string tensors are not supported");
  parts.inputs = {input("x", {"1"}, static_cast<DataType>(77))};
  EXPECT_NE(refusal(model(parts)).find("unknown element type 77"), std::string::npos);
  parts.inputs = {message([](auto& w) { w.add_string(value_info_field::kName, "x"); })};
  EXPECT_NE(refusal(model(parts)).find("input x is no tensor"), std::string::npos);
}

TEST(Refusals, FilesThatAreNoModels) {
  EXPECT_EQ(refusal(""), "FormatError t.onnx (byte 0): the file is empty");
  EXPECT_NE(refusal("\x89PNG\r\n\x1a\n").find("is this an ONNX file?"), std::string::npos);
  EXPECT_NE(
      refusal(message([](auto& w) { w.add_int64(model_field::kIrVersion, 8); })).find("no graph"),
      std::string::npos);
  EXPECT_THROW(import_onnx_file("/nonexistent.onnx"), FormatError);
  EXPECT_THROW(import_onnx_file("/"), FormatError);
  EXPECT_THROW(import_onnx_file("/dev/null"), FormatError);
}

TEST(Names, AreText) {
  for (const char* good : {"a b", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x99\x82", "\n"}) {
    EXPECT_EQ(refusal(model({.nodes = {}, .inputs = {input(good, {"1"})}, .outputs = {good}})), "");
  }
  for (const char* bad : {"\xff", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    EXPECT_NE(refusal(model({.nodes = {}, .inputs = {input(bad, {"1"})}, .outputs = {bad}}))
                  .find("UTF-8"),
              std::string::npos);
  }
}

TEST(Names, StayUnique) {
  const ImportedModel m =
      load(model({.nodes = {node("Relu", {"x"}, {"a"}), node("Relu", {"a"}, {"y"})},
                  .inputs = {input("x", {"1"})},
                  .outputs = {"y"}}));
  EXPECT_EQ(m.graph.nodes[0].name, "relu");
  EXPECT_EQ(m.graph.nodes[1].name, "relu_1");
}

TEST(Speed, ManyEqualNamesAreNotQuadratic) {
  std::vector<std::string> nodes;
  for (int i = 0; i < 20000; ++i) {
    nodes.push_back(
        node("Relu", {i == 0 ? "x" : "v" + std::to_string(i)}, {"v" + std::to_string(i + 1)}));
  }
  const ImportedModel m =
      load(model({.nodes = nodes, .inputs = {input("x", {"1"})}, .outputs = {"v20000"}}));
  EXPECT_EQ(m.graph.nodes.size(), 20000u);  // a quadratic importer takes minutes here
}

}  // namespace
}  // namespace stretto::onnx
