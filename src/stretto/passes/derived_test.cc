#include "stretto/passes/derived.h"

#include <gtest/gtest.h>

#include <array>

#include "stretto/ir/operator.h"
#include "stretto/passes/pipeline.h"

namespace stretto::passes {
namespace {

Tensor numbers(int64_t count, float first) {
  Tensor tensor(DType::kFloat32, {count});
  for (float& v : tensor.mutable_values<float>()) v = first++;
  return tensor;
}

TEST(Derived, IsMadeOncePerRecipeAndTensor) {
  Derived derived;
  int made = 0;
  const auto get = [&](const std::string& recipe, const Tensor& from) {
    return derived.get(recipe, std::array{from}, [&] {
      ++made;
      return std::vector<Tensor>{numbers(3, static_cast<float>(made))};
    })[0];
  };
  const Tensor large = numbers(10000, 0), small = numbers(4, 0);
  const Tensor first = get("double", large);
  EXPECT_EQ(get("double", large).data(), first.data());
  EXPECT_EQ(made, 1);
  EXPECT_NE(get("triple", large).data(), first.data());
  EXPECT_NE(get("double", large.reshaped({100, 100})).data(), first.data());
  // A copy of a small tensor is the same tensor, one of a large tensor is another.
  EXPECT_EQ(get("double", small).data(), get("double", numbers(4, 0)).data());
  EXPECT_NE(get("double", numbers(4, 1)).data(), get("double", small).data());
  EXPECT_NE(get("double", numbers(10000, 0)).data(), first.data());
}

TEST(Derived, OnceSettledOnlyWhatIsThereMayBeMade) {
  Derived derived;
  const std::array from{numbers(4, 0)};
  derived.get("known", from, [] { return std::vector<Tensor>{numbers(3, 0)}; });
  EXPECT_TRUE(derived.may_make("new", from));
  derived.settle();
  EXPECT_FALSE(derived.may_make("new", from));
  EXPECT_TRUE(derived.may_make("known", from));
}

// Two graphs of one model, for different batches, share the weights that the passes make.
TEST(Derived, GraphsOfOneModelShareWhatPassesMake) {
  Derived derived;
  Tensor weight(DType::kFloat32, {64, 32, 3, 3});
  for (float& v : weight.mutable_values<float>()) v = 0.5f;
  const auto weight_for = [&](int64_t batch) {
    ir::Graph graph;
    const auto x = graph.add_value("x", DType::kFloat32, Shape{batch, 32, 8, 8});
    const auto product = graph.add_value("product"), y = graph.add_value("y");
    graph.inputs = {x};
    graph.outputs = {y};
    graph.add_node("Conv", {x, graph.add_constant("w", weight)}, {product});
    graph.add_node("Mul", {product, graph.add_constant("half", Tensor::scalar(0.5f))}, {y});
    run_pipeline(graph, {.derived = &derived});
    for (const ir::Node& node : graph.nodes) {
      if (node.op->name == "stretto.Conv") return graph.value(node.inputs[1]).constant;
    }
    return Tensor();
  };
  const Tensor one = weight_for(1), many = weight_for(8);
  ASSERT_TRUE(one.defined());
  EXPECT_NE(one.data(), weight.data());
  EXPECT_EQ(one.data(), many.data());
  EXPECT_EQ(one.values<float>()[0], 0.25f);
}

}  // namespace
}  // namespace stretto::passes
