#include "stretto/runtime/sample_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/ir/operator.h"
#include "stretto/ir/text.h"

namespace stretto::runtime {
namespace {

int64_t largest(const Tensor& tensor) {
  const std::vector<double> values = tensor.as_doubles();
  return static_cast<int64_t>(*std::max_element(values.begin(), values.end()));
}

TEST(SampleInputs, IndicesStayWithinTheSmallestTable) {
  const ir::Graph graph = ir::parse_text(R"(
    graph lookup
    input i: int32[4000]
    constant wide: float32[50, 2] = random(1)
    constant narrow: float32[7, 2] = random(2)
    a = Identity(i)
    b = Cast(a) {to = "int64"}
    y = Gather(wide, i) {axis = 0}
    z = Gather(narrow, b) {axis = 0}
    output y, z
  )");
  const auto samples = sample_inputs(graph, {});
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_EQ(largest(samples[0].tensor), 6);
}

// A file decides how long a chain is; the stack does not grow with it.
TEST(SampleInputs, AChainOfAMillionIdentities) {
  constexpr int kLength = 1000000;
  ir::Graph graph{.name = "chain"};
  graph.values.resize(kLength + 3);
  const auto value = [&](int id, const char* name, DType dtype, Shape shape) {
    graph.values[id] = {.name = name, .dtype = dtype, .shape = std::move(shape)};
  };
  const ir::Operator* identity = ir::find_operator("Identity");
  for (int i = 0; i <= kLength; ++i) value(i, "i", DType::kInt64, {2000});
  for (int i = 0; i < kLength; ++i) {
    graph.nodes.push_back({.op = identity, .name = "n", .inputs = {i}, .outputs = {i + 1}});
  }
  value(kLength + 1, "table", DType::kFloat32, {5, 1});
  graph.values[kLength + 1].constant = Tensor(DType::kFloat32, {5, 1});
  value(kLength + 2, "y", DType::kFloat32, {2000, 1});
  graph.nodes.push_back({.op = ir::find_operator("Gather"),
                         .name = "g",
                         .inputs = {kLength + 1, kLength},
                         .outputs = {kLength + 2}});
  graph.inputs = {0};
  graph.outputs = {kLength + 2};
  EXPECT_EQ(largest(sample_inputs(graph, {})[0].tensor), 4);
}

}  // namespace
}  // namespace stretto::runtime
