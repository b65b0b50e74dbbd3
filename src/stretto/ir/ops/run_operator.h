// For tests: runs one operator on literal tensors.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/ir/interpreter.h"
#include "stretto/ir/operator.h"

namespace stretto::ir {

inline Tensor floats(Shape shape, std::vector<float> values) {
  return Tensor::of<float>(std::move(shape), values);
}
inline Tensor ints(Shape shape, std::vector<int64_t> values) {
  return Tensor::of<int64_t>(std::move(shape), values);
}
inline Tensor ints(std::vector<int64_t> values) { return Tensor::int64s(values); }
// 0, 1, 2, ... times `scale` plus `first`.
inline Tensor ramp(Shape shape, float scale = 1, float first = 0) {
  Tensor tensor(DType::kFloat32, std::move(shape));
  float next = 0;
  for (float& value : tensor.mutable_values<float>()) value = first + scale * next++;
  return tensor;
}

using AttributeList = std::initializer_list<std::pair<const char*, Attribute>>;

// One node whose inputs are all constants; undefined tensors stand for absent inputs.
struct OneNode {
  Graph graph;
  std::vector<Tensor> inputs;

  OneNode(std::string_view op, std::vector<Tensor> tensors, AttributeList attributes, int outputs)
      : inputs(std::move(tensors)) {
    std::vector<ValueId> in, out;
    for (const Tensor& tensor : inputs) {
      in.push_back(tensor.defined() ? graph.add_constant("x", tensor) : kNone);
    }
    for (int i = 0; i < outputs; ++i) out.push_back(graph.add_value("y"));
    Attributes all;
    for (const auto& [name, value] : attributes) all.set(name, value);
    graph.add_node(op, in, out, all, "n");
    graph.outputs = out;
  }
};

// The outputs of the reference. Float inputs run a second time in float64: both must agree.
inline std::vector<Tensor> run_all(std::string_view op, std::vector<Tensor> inputs,
                                   AttributeList attributes = {}, int outputs = 1,
                                   ThreadTeam* team = nullptr) {
  OneNode one(op, std::move(inputs), attributes, outputs);
  infer(one.graph);
  const Node& node = one.graph.nodes[0];
  std::vector<Tensor> results = evaluate(one.graph, node, one.inputs, team);
  std::vector<Tensor> wide = one.inputs;
  for (Tensor& tensor : wide) {
    if (tensor.dtype() == DType::kFloat32) tensor = tensor.converted(DType::kFloat64);
  }
  const std::vector<Tensor> wide_results = evaluate(one.graph, node, wide, team);
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].dtype(), one.graph.value(node.outputs[i]).dtype) << op;
    const std::vector<double> a = results[i].as_doubles(), b = wide_results[i].as_doubles();
    for (size_t j = 0; j < a.size(); ++j) {
      // float32 storage of results computed in double: one rounding, 2^-24 relative.
      if (!(a[j] == b[j] || (a[j] != a[j] && b[j] != b[j]))) {
        EXPECT_NEAR(a[j], b[j], 1e-6 * (1 + std::abs(b[j])))
            << op << " output " << i << " [" << j << "]";
      }
    }
  }
  return results;
}

inline Tensor run(std::string_view op, std::vector<Tensor> inputs, AttributeList attributes = {}) {
  return run_all(op, std::move(inputs), attributes)[0];
}

// The message of the InvalidArgument or Unsupported that inference throws; "" when it does not.
inline std::string error_of(std::string_view op, std::vector<Tensor> inputs,
                            AttributeList attributes = {}, int outputs = 1) {
  OneNode one(op, std::move(inputs), attributes, outputs);
  try {
    infer(one.graph);
  } catch (const InvalidArgument& error) {
    return error.what();
  } catch (const Unsupported& error) {
    return error.what();
  }
  return "";
}

// Bit-exact unless a tolerance is given (relative above 1); NaN equals NaN.
inline void expect_values(const Tensor& tensor, const Shape& shape,
                          const std::vector<double>& values, double tolerance = 0) {
  EXPECT_EQ(tensor.shape(), shape);
  const std::vector<double> got = tensor.as_doubles();
  ASSERT_EQ(got.size(), values.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == values[i] || (got[i] != got[i] && values[i] != values[i])) continue;
    EXPECT_NEAR(got[i], values[i], tolerance * (1 + std::abs(values[i]))) << "at " << i;
  }
}

}  // namespace stretto::ir
