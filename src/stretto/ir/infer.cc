#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/ir/interpreter.h"
#include "stretto/ir/limits.h"
#include "stretto/ir/not_straight.h"
#include "stretto/ir/operator.h"

namespace stretto::ir {
namespace {

// Integer results this small are worth knowing at compile time: they are shapes, axes and indices.
constexpr int64_t kMaxKnownElements = 1024;

// And so cheap: a few small operands can still ask for any number of operations (Einsum, pools).
constexpr double kMaxKnownFlops = 1 << 24;

bool worth_folding(const Graph& graph, const Node& node) {
  const auto small = [&](ValueId id) {
    return id == kNone || !graph.value(id).shape ||
           element_count(*graph.value(id).shape) <= kMaxKnownElements;
  };
  const auto known = [&](ValueId id) { return id == kNone || graph.value(id).is_constant(); };
  if (node.op->name == "Constant") return true;  // the tensor is there already
  if (node.op->random) return false;
  if (!std::all_of(node.outputs.begin(), node.outputs.end(), small)) return false;
  if (node.op->flops != nullptr && node.op->flops(graph, node) > kMaxKnownFlops) return false;
  return !node.inputs.empty() && std::all_of(node.inputs.begin(), node.inputs.end(), known) &&
         std::all_of(node.inputs.begin(), node.inputs.end(), small);
}

void fold(Graph& graph, const Node& node) {
  std::vector<Tensor> inputs;
  for (ValueId id : node.inputs)
    inputs.push_back(id == kNone ? Tensor() : graph.value(id).constant);
  std::vector<Tensor> outputs = evaluate(graph, node, inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (node.outputs[i] != kNone) graph.value(node.outputs[i]).constant = std::move(outputs[i]);
  }
}

}  // namespace

bool Inference::has_input(int i) const { return i < input_count() && node_.inputs[i] != kNone; }

bool Inference::has_output(int i) const { return i < output_count() && node_.outputs[i] != kNone; }

DType Inference::dtype(int i) const { return graph_.value(node_.inputs.at(i)).dtype; }

const Shape& Inference::shape(int i) const { return *graph_.value(node_.inputs.at(i)).shape; }

const Tensor* Inference::constant(int i) const {
  if (!has_input(i)) return nullptr;
  const Value& value = graph_.value(node_.inputs[i]);
  return value.is_constant() ? &value.constant : nullptr;
}

std::vector<int64_t> Inference::constant_integers(int i, std::string_view what) const {
  const Tensor* tensor = constant(i);
  if (tensor == nullptr) {
    throw_not_straight(
        "{} must be known when the model is optimised, but it depends on the model's "
        "input values",
        what);
  }
  return tensor->as_int64s();
}

void Inference::set_output(int i, DType dtype, Shape shape) {
  if (!has_output(i)) return;
  element_count(shape);  // refuses overflow
  if (shape.size() > kMaxRank) {
    throw_invalid("output {} would have {} dimensions, the limit is {}", i, shape.size(), kMaxRank);
  }
  Value& value = graph_.value(node_.outputs[i]);
  value.dtype = dtype;
  value.shape = std::move(shape);
}

void infer_node(Graph& graph, const Node& node) {
  check_schema(graph, node);
  const auto context = [&](const std::exception& error) {
    return fmt::format("{} \"{}\": {}", node.op->name, node.name, error.what());
  };
  try {
    Inference inference(graph, node);
    node.op->infer(inference);
    // Values that depend only on shapes fold right here; weights are left to the folding pass.
    const bool shape_like = node.op->name == "Shape" || node.op->name == "Size";
    if (shape_like || worth_folding(graph, node)) {
      if (shape_like && node.inputs[0] != kNone) {
        std::vector<Tensor> inputs{Tensor(graph.value(node.inputs[0]).dtype,
                                          *graph.value(node.inputs[0]).shape, nullptr, nullptr)};
        std::vector<Tensor> outputs = evaluate(graph, node, inputs);
        graph.value(node.outputs[0]).constant = std::move(outputs[0]);
      } else {
        fold(graph, node);
      }
    }
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(context(error));
  } catch (const NotStraight& error) {
    throw NotStraight(context(error));
  } catch (const Unsupported& error) {
    throw Unsupported(context(error));
  }
}

void infer(Graph& graph) {
  for (const Node& node : graph.nodes) {
    check_interrupt();
    infer_node(graph, node);
  }
}

}  // namespace stretto::ir
