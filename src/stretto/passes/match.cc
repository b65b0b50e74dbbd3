#include "stretto/passes/match.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stretto/ir/operator.h"
#include "stretto/tensor/elementwise.h"
#include "stretto/tensor/identity.h"

namespace stretto::passes {
namespace {

// Larger constants are weights: never worth a scan for a special value.
constexpr int64_t kMaxScannedElements = 1 << 16;

using Arg = ir::ElementwiseArg;

Arg literal(double value) { return {.kind = Arg::Kind::kLiteral, .literal = value}; }
Arg input(int index) { return {.kind = Arg::Kind::kInput, .index = index}; }
Arg result(int index) { return {.kind = Arg::Kind::kResult, .index = index}; }

// The number in a one-element float or bool constant.
std::optional<double> number(const Rewriter& graph, ValueId id) {
  const Tensor* tensor = graph.constant(id);
  if (tensor == nullptr || tensor->dtype() != DType::kBool) return scalar(graph, id);
  return tensor->count() == 1 ? std::optional(tensor->as_doubles()[0]) : std::nullopt;
}

// Between float32 and bool.
std::optional<std::vector<ir::ElementwiseStep>> cast_program(const Rewriter& graph,
                                                             const Node& node) {
  const DType from = graph.dtype(node.inputs[0]), to = graph.dtype(node.outputs[0]);
  if (from == to) return std::nullopt;
  return std::vector<ir::ElementwiseStep>{
      {.op = to == DType::kBool ? "ToBool" : "Copy", .args = {input(0)}}};
}

// Of a stretto.Elementwise on float32 and bool.
ElementwiseMatch match_program(const Rewriter& graph, const Node& node) {
  ElementwiseMatch match{.steps = ir::parse_elementwise(node.attributes.text("program", "")),
                         .inputs = node.inputs};
  if (graph.dtype(node.outputs[0]) != DType::kBool) return match;
  std::vector<bool> truth;
  for (ValueId id : node.inputs) truth.push_back(graph.dtype(id) == DType::kBool);
  if (!ir::truth_of(match.steps, truth).back()) {
    match.steps.push_back(
        {.op = "ToBool", .args = {result(static_cast<int>(match.steps.size()) - 1)}});
  }
  return match;
}

// Every part with its length, so that no two lists of parts give one text.
void append_part(std::string& text, std::string_view part) {
  text += fmt::format(" {}:{}", part.size(), part);
}

void append_attribute(std::string& text, const ir::Attribute& attribute) {
  append_part(text, fmt::format("kind {}", attribute.index()));
  if (const auto* v = std::get_if<int64_t>(&attribute)) append_part(text, fmt::format("{}", *v));
  if (const auto* v = std::get_if<double>(&attribute)) append_part(text, fmt::format("{}", *v));
  if (const auto* v = std::get_if<std::string>(&attribute)) append_part(text, *v);
  if (const auto* v = std::get_if<std::vector<int64_t>>(&attribute)) {
    append_part(text, fmt::format("{}", fmt::join(*v, ",")));
  }
  if (const auto* v = std::get_if<std::vector<double>>(&attribute)) {
    append_part(text, fmt::format("{}", fmt::join(*v, ",")));
  }
  if (const auto* v = std::get_if<std::vector<std::string>>(&attribute)) {
    for (const std::string& word : *v) append_part(text, word);
  }
  if (const auto* v = std::get_if<Tensor>(&attribute)) append_part(text, identity(*v));
}

}  // namespace

std::string operation(const Node& node) {
  std::string text = fmt::format("{} {}", node.op->name, node.outputs.size());
  for (const auto& [name, attribute] : node.attributes.all()) {
    append_part(text, name);
    append_attribute(text, attribute);
  }
  return text;
}

std::optional<double> scalar(const Rewriter& graph, ValueId id) {
  const Tensor* tensor = graph.constant(id);
  if (tensor == nullptr || tensor->count() != 1 || !is_float(tensor->dtype())) return std::nullopt;
  return tensor->as_doubles()[0];
}

bool close(double a, double b) {
  return std::fabs(a - b) <= 1e-6 * std::max(std::fabs(a), std::fabs(b));
}

bool all_equal(const Rewriter& graph, ValueId id, double value) {
  const Tensor* tensor = graph.constant(id);
  if (tensor == nullptr || tensor->count() == 0 || tensor->count() > kMaxScannedElements)
    return false;
  const auto values = tensor->as_doubles();
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == value; });
}

std::optional<WithScalar> with_scalar(const Rewriter& graph, int n) {
  const Node& node = graph.node(n);
  if (node.inputs.size() != 2) return std::nullopt;
  const bool commutes = node.op->name == "Add" || node.op->name == "Mul";
  if (!commutes && node.op->name != "Sub" && node.op->name != "Div") return std::nullopt;
  for (int side = 1; side >= (commutes ? 0 : 1); --side) {
    const ValueId x = node.inputs[1 - side];
    const auto c = scalar(graph, node.inputs[side]);
    // A one-element constant of higher rank would change the shape.
    if (c && graph.constant(x) == nullptr && graph.shape(x) == graph.shape(node.outputs[0])) {
      return WithScalar{x, *c};
    }
  }
  return std::nullopt;
}

std::optional<std::vector<int64_t>> integers(const Rewriter& graph, int n, size_t i,
                                             std::string_view attribute) {
  const Node& node = graph.node(n);
  if (i < node.inputs.size() && node.inputs[i] != kNone) {
    const Tensor* tensor = graph.constant(node.inputs[i]);
    if (tensor == nullptr) return std::nullopt;
    return tensor->as_int64s();
  }
  if (!attribute.empty() && node.attributes.has(attribute)) {
    return node.attributes.integers(attribute, {});
  }
  return std::nullopt;
}

std::optional<std::vector<int64_t>> reduce_axes(const Rewriter& graph, int n) {
  const Node& node = graph.node(n);
  const auto rank = static_cast<int64_t>(graph.shape(node.inputs[0]).size());
  auto axes = integers(graph, n, 1, "axes");
  const bool absent = node.inputs.size() < 2 || node.inputs[1] == kNone;
  if (!axes && !absent) return std::nullopt;
  if (!axes || axes->empty()) {
    if (node.attributes.integer("noop_with_empty_axes", 0) != 0) return std::nullopt;
    axes.emplace(static_cast<size_t>(rank));
    std::iota(axes->begin(), axes->end(), 0);
  }
  for (int64_t& axis : *axes) axis = normalize_axis(axis, rank, "axes");
  std::sort(axes->begin(), axes->end());
  return axes;
}

std::vector<int64_t> permutation(const Rewriter& graph, int n) {
  const Node& node = graph.node(n);
  const size_t rank = graph.shape(node.inputs[0]).size();
  std::vector<int64_t> reversed(rank);
  for (size_t i = 0; i < rank; ++i) reversed[i] = static_cast<int64_t>(rank - 1 - i);
  return node.attributes.integers("perm", reversed);
}

std::optional<ActivationMatch> match_activation(const Rewriter& graph, int n) {
  const Node& node = graph.node(n);
  std::vector<ir::ElementwiseStep> steps;
  std::vector<ValueId> inputs;
  if (node.op->name == "stretto.Elementwise") {
    if (node.inputs.size() != 1) return std::nullopt;
    steps = ir::parse_elementwise(node.attributes.text("program", ""));
    inputs = node.inputs;
  } else if (auto match = match_elementwise(graph, n)) {
    steps = std::move(match->steps);
    inputs = std::move(match->inputs);
  }
  if (steps.size() != 1 || inputs.size() != 1) return std::nullopt;
  const ir::ElementwiseStep& step = steps[0];
  const ElementRow* row = find_element(step.op);
  const auto activation = row != nullptr ? activation_of(row->op) : std::nullopt;
  if (!activation || step.args[0].kind != Arg::Kind::kInput) return std::nullopt;
  ActivationMatch match{.name = std::string(activation_name(*activation)), .x = inputs[0]};
  for (size_t i = 1; i < step.args.size(); ++i) {
    if (step.args[i].kind != Arg::Kind::kLiteral) return std::nullopt;
    (i == 1 ? match.alpha : match.beta) = step.args[i].literal;
  }
  return match;
}

std::optional<ElementwiseMatch> match_elementwise(const Rewriter& graph, int n, LoopTypes types) {
  const Node& node = graph.node(n);
  const std::string_view op = node.op->name;
  const auto held = [&](ValueId id) {
    const DType dtype = graph.dtype(id);
    return dtype == DType::kFloat32 ||
           (types == LoopTypes::kFloat32AndBool && dtype == DType::kBool);
  };
  if (node.outputs.size() != 1 || !held(node.outputs[0])) return std::nullopt;
  for (ValueId id : node.inputs) {
    if (id != kNone && !held(id)) return std::nullopt;
  }
  if (op == "stretto.Elementwise") return match_program(graph, node);
  ElementwiseMatch match;
  const auto& out_shape = graph.shape(node.outputs[0]);
  // A scalar constant becomes a literal unless its rank decides the rank of the result.
  const auto arg = [&](ValueId id) -> Arg {
    const auto value = number(graph, id);
    if (value && graph.shape(id).size() <= out_shape.size() && node.inputs.size() > 1) {
      return literal(*value);
    }
    const auto at = std::find(match.inputs.begin(), match.inputs.end(), id);
    const auto index = static_cast<int>(at - match.inputs.begin());
    if (at == match.inputs.end()) match.inputs.push_back(id);
    return input(index);
  };
  const auto program = op == "Cast" ? cast_program(graph, node) : ir::elementwise_program(node);
  if (!program || (program->front().op == "Copy" && op != "Cast")) return std::nullopt;
  for (ir::ElementwiseStep step : *program) {
    for (Arg& a : step.args) {
      if (a.kind == Arg::Kind::kInput) a = arg(node.inputs[static_cast<size_t>(a.index)]);
    }
    match.steps.push_back(std::move(step));
  }
  ir::ElementwiseStep& first = match.steps.front();
  const auto is_literal = [](const Arg& a, double value) {
    return a.kind == Arg::Kind::kLiteral && a.literal == value;
  };
  if (first.op == "Clip" && is_literal(first.args[1], 0) &&
      is_literal(first.args[2], element_row(ElementOp::kClip).beta)) {
    first = {"Relu", {first.args[0]}};
  }
  // Literals must not have carried the shape: what is left broadcasts to the same result.
  Shape shape;
  for (ValueId id : match.inputs) shape = broadcast(shape, graph.shape(id));
  if (match.inputs.empty() || shape != out_shape) return std::nullopt;
  return match;
}

}  // namespace stretto::passes
