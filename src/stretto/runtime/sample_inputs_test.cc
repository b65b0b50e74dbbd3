#include "stretto/runtime/sample_inputs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "stretto/base/error.h"
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

TEST(SampleInputs, IndicesStayWithinAxesOfEveryOperatorThatTakesThem) {
  const struct {
    const char *shape, *node;
    int64_t most;
  } rows[] = {
      {"3, 1", "Gather(data, i) {axis = 1}", 0},
      {"3, 1", "GatherElements(data, i) {axis = -1}", 0},
      {"3, 1", "ScatterElements(data, i, updates) {axis = 1}", 0},
      {"200, 2", "GatherND(data, i)", 1},
      {"200, 3", "GatherND(data, i) {batch_dims = 1}", 2},
      {"200, 4", "ScatterND(data, i, scattered)", 3},
  };
  for (const auto& row : rows) {
    const bool nd = std::string_view(row.node).find("ND") != std::string_view::npos;
    const bool batched = std::string_view(row.node).find("batch") != std::string_view::npos;
    const char* indices = !nd ? "600, 1" : batched ? "200, 1" : "600, 2";
    const std::string data =
        nd || std::string_view(row.node).starts_with("Gather(") ? row.shape : "600, 1";
    const ir::Graph graph = ir::parse_text(fmt::format(R"(
      graph places
      input i: int64[{}]
      constant data: float32[{}] = random(1)
      constant updates: float32[600, 1] = random(2)
      constant scattered: float32[600] = random(2)
      y = {}
      output y
    )",
                                                       indices, data, row.node));
    const auto samples = sample_inputs(graph, {});
    EXPECT_EQ(largest(samples[0].tensor), row.most) << row.node;
  }
}

TEST(SampleInputs, IndicesAreFoundBehindWhatMovesThem) {
  const ir::Graph graph = ir::parse_text(R"(
    graph moved
    input i: int64[30, 40]
    constant shape: int64[1] = {1200}
    constant data: float32[1, 2] = random(1)
    a = Transpose(i) {perm = [1, 0]}
    b = Reshape(a, shape)
    c = Concat(b, b) {axis = 0}
    y = Gather(data, c) {axis = 0}
    output y
  )");
  EXPECT_EQ(largest(sample_inputs(graph, {})[0].tensor), 0);
}

TEST(SampleInputs, Float64WasRefusedWhereFloat32IsExpected) {
  const ir::Graph graph = ir::parse_text(R"(
    graph g
    input x: float32[2]
    input n: int32[1]
    y = Relu(x)
    z = Identity(n)
    output y, z
  )");
  const auto samples =
      sample_inputs(graph, {{"x", Tensor::of<double>({2}, std::array{0.1, 2.0})},
                            {"n", Tensor::of<int32_t>({1}, std::array<int32_t, 1>{3})}});
  EXPECT_EQ(samples[0].tensor.dtype(), DType::kFloat32);
  EXPECT_EQ(samples[0].tensor.values<float>()[0], 0.1f);
  EXPECT_TRUE(samples[0].rounded);
  EXPECT_FALSE(samples[1].rounded);
  EXPECT_THROW(sample_inputs(graph, {{"n", Tensor::of<double>({1}, std::array{3.0})}}),
               InvalidArgument);
  EXPECT_THROW(sample_inputs(graph, {{"x", Tensor::of<double>({1}, std::array{3.0})}}),
               InvalidArgument);
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
