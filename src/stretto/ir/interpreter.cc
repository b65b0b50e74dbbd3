#include "stretto/ir/interpreter.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/ir/operator.h"

namespace stretto::ir {
namespace {

Tensor widened(const Tensor& tensor, bool float64) {
  const bool narrow = tensor.dtype() == DType::kFloat32 || tensor.dtype() == DType::kFloat16 ||
                      tensor.dtype() == DType::kBFloat16;
  return float64 && narrow ? tensor.converted(DType::kFloat64) : tensor;
}

void check_inputs(const Graph& graph, std::span<const Tensor> inputs) {
  if (inputs.size() != graph.inputs.size()) {
    throw_invalid("{}: expected {} inputs, got {}", graph.name, graph.inputs.size(), inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Value& value = graph.value(graph.inputs[i]);
    if (inputs[i].dtype() != value.dtype) {
      throw_invalid("input {}: expected {}, got {}", value.name, dtype_name(value.dtype),
                    dtype_name(inputs[i].dtype()));
    }
    if (value.shape && inputs[i].shape() != *value.shape) {
      throw_invalid("input {}: expected shape {}, got {}", value.name, shape_text(*value.shape),
                    shape_text(inputs[i].shape()));
    }
  }
}

// Whether no output of the node has elements.
bool makes_nothing(const Graph& graph, const Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
    return id == kNone || element_count(*graph.value(id).shape) == 0;
  });
}

}  // namespace

Tensor& Evaluation::make_output(int i) {
  outputs[i] = Tensor(output_dtypes[i], output_shapes[i]);
  return outputs[i];
}

std::vector<Tensor> evaluate(const Graph& graph, const Node& node, std::span<const Tensor> inputs,
                             ThreadTeam* team) {
  std::vector<Tensor> outputs(node.outputs.size());
  std::vector<Shape> shapes(node.outputs.size());
  std::vector<DType> dtypes(node.outputs.size(), DType::kUndefined);
  // Inputs widened to double make outputs double.
  bool wide = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    wide = wide || (inputs[i].dtype() == DType::kFloat64 && node.inputs[i] != kNone &&
                    graph.value(node.inputs[i]).dtype != DType::kFloat64);
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    const Value& value = graph.value(node.outputs[i]);
    STRETTO_CHECK(value.shape.has_value(), "{}: shape of {} unknown", node.name, value.name);
    shapes[i] = *value.shape;
    dtypes[i] = wide && value.dtype == DType::kFloat32 ? DType::kFloat64 : value.dtype;
  }
  Evaluation evaluation{.attributes = node.attributes,
                        .inputs = inputs,
                        .outputs = outputs,
                        .output_shapes = shapes,
                        .output_dtypes = dtypes,
                        .team = team};
  // Shapes with a zero may hold huge other dimensions: no reference loops over those for nothing.
  if (!outputs.empty() && makes_nothing(graph, node)) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (node.outputs[i] != kNone) evaluation.make_output(static_cast<int>(i));
    }
  } else {
    node.op->evaluate(evaluation);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (node.outputs[i] == kNone) continue;
    STRETTO_CHECK(outputs[i].defined() && outputs[i].shape() == shapes[i],
                  "{} \"{}\": reference made output {} of shape {}, inference said {}",
                  node.op->name, node.name, i,
                  outputs[i].defined() ? shape_text(outputs[i].shape()) : "none",
                  shape_text(shapes[i]));
  }
  return outputs;
}

std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs,
                              const InterpretOptions& options) {
  check_inputs(graph, inputs);
  const Links links(graph);
  std::vector<Tensor> values(graph.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    values[graph.inputs[i]] = widened(inputs[i], options.float64);
  }
  const auto get = [&](ValueId id) -> Tensor {
    if (id == kNone) return {};
    const Value& value = graph.value(id);
    if (value.is_constant()) return widened(value.constant, options.float64);
    STRETTO_CHECK(values[id].defined(), "value {} used before it was computed", value.name);
    return values[id];
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    check_interrupt();
    const Node& node = graph.nodes[n];
    std::vector<Tensor> arguments;
    for (ValueId id : node.inputs) arguments.push_back(get(id));
    std::vector<Tensor> results = evaluate(graph, node, arguments, options.team);
    for (size_t i = 0; i < results.size(); ++i) {
      const ValueId id = node.outputs[i];
      if (id == kNone) continue;
      values[id] = widened(results[i], options.float64);
      if (options.observe) options.observe(id, values[id]);
    }
    for (ValueId id : node.inputs) {
      const bool last_use = id != kNone && !links.is_output[id] && !links.users[id].empty() &&
                            links.users[id].back() == static_cast<int>(n);
      if (last_use) values[id] = {};
    }
  }
  std::vector<Tensor> outputs;
  for (ValueId id : graph.outputs) {
    const Tensor result = get(id);
    const DType wanted = graph.value(id).dtype;
    outputs.push_back(result.dtype() == wanted ? result : result.converted(wanted));
  }
  return outputs;
}

}  // namespace stretto::ir
