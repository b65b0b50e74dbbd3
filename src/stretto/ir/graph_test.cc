#include "stretto/ir/graph.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto::ir {
namespace {

Graph chain() {  // x -> a -> b -> y, with a dead branch at a
  Graph g;
  g.name = "chain";
  const ValueId x = g.add_value("x", DType::kFloat32, Shape{2, 3});
  g.inputs = {x};
  const ValueId a = g.add_value("a"), b = g.add_value("b"), dead = g.add_value("dead");
  g.add_node("Identity", {x}, {a});
  g.add_node("Identity", {a}, {b});
  g.add_node("Identity", {a}, {dead});
  g.outputs = {b};
  return g;
}

TEST(Graph, InfersAndVerifies) {
  Graph g = chain();
  infer(g);
  verify(g);
  EXPECT_EQ(*g.value(g.outputs[0]).shape, (Shape{2, 3}));
}

TEST(Graph, InputsBelongToTheCaller) {
  Graph g = chain();
  infer(g);
  g.inputs.push_back(g.inputs[0]);
  EXPECT_THROW(verify(g), InternalError) << "twice";
  g.inputs.pop_back();
  g.nodes[2].outputs = g.inputs;
  EXPECT_THROW(verify(g), InternalError) << "made by a node";
  g.nodes.pop_back();
  g.value(g.inputs[0]).constant = Tensor(DType::kFloat32, {2, 3});
  EXPECT_THROW(verify(g), InternalError) << "constant";
}

TEST(Graph, RemovesTheDeadAndRenumbers) {
  Graph g = chain();
  EXPECT_EQ(remove_dead(g), 1);
  EXPECT_EQ(g.nodes.size(), 2u);
  EXPECT_EQ(g.values.size(), 3u);
  infer(g);
  verify(g);
}

TEST(Graph, LeavesOutOptionalOutputsThatNothingReads) {
  Graph g;
  const ValueId x = g.add_value("x", DType::kFloat32, Shape{1, 2, 4, 4});
  const ValueId y = g.add_value("y"), indices = g.add_value("indices");
  g.inputs = {x};
  Attributes attributes;
  attributes.set("kernel_shape", std::vector<int64_t>{4, 4});
  g.add_node("MaxPool", {x}, {y, indices}, std::move(attributes));
  g.outputs = {y, indices};
  infer(g);
  remove_dead(g);
  EXPECT_EQ(g.nodes[0].outputs.size(), 2u) << "a caller reads them";
  g.outputs.pop_back();
  EXPECT_EQ(remove_dead(g), 0);
  EXPECT_EQ(g.nodes[0].outputs.size(), 1u);
  EXPECT_EQ(g.values.size(), 2u);
  infer(g);
  verify(g);
}

TEST(Graph, SortsAndNamesCycles) {
  Graph g = chain();
  std::swap(g.nodes[0], g.nodes[1]);
  EXPECT_THROW(verify(g), InternalError);
  sort(g);
  verify(g);
  g.nodes[0].inputs[0] = g.nodes[1].outputs[0];
  EXPECT_THROW(sort(g), InvalidArgument);
}

TEST(Graph, ReplacedOutputsKeepTheirName) {
  Graph g = chain();
  replace_uses(g, g.outputs[0], g.nodes[0].outputs[0]);
  EXPECT_EQ(g.value(g.outputs[0]).name, "b");
  remove_dead(g);
  verify(g);
}

TEST(Graph, NamesStayUnique) {
  Graph g = chain();
  const auto added = [&](std::string_view name) { return g.value(g.add_value(name)).name; };
  EXPECT_EQ(added("a"), "a_1");
  EXPECT_EQ(added(""), "value");
  EXPECT_EQ(added("a"), "a_2");
  EXPECT_EQ(added("a_1"), "a_1_1");
  EXPECT_EQ(added("a_04"), "a_04");
  EXPECT_EQ(added("a_4"), "a_4");
  EXPECT_EQ(added("a"), "a_3");
  EXPECT_EQ(added("a"), "a_5");
  EXPECT_EQ(added("a_18446744073709551617"), "a_18446744073709551617");
  EXPECT_EQ(added("a"), "a_6");
}

}  // namespace
}  // namespace stretto::ir
