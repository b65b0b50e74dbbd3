// Removes nodes that return their input, and gives shape-changing nodes one form: Reshape with a
// constant target, never two in a row. GatherND of whole entries of the first axis is Gather.
#include <algorithm>
#include <numeric>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {
    "drop-identity",        "drop-cast",          "drop-reshape",
    "drop-transpose",       "drop-pad",           "drop-slice",
    "drop-concat",          "drop-times-one",     "drop-plus-zero",
    "canonical-reshape",    "reshape-of-reshape", "transpose-of-transpose",
    "transpose-as-reshape", "gather-nd"};

bool one_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), op) != names.end();
}

// The rule by which node n returns one of its inputs unchanged, and that input.
struct Identity {
  std::string_view rule;
  ValueId input = kNone;
};

Identity times_one_or_plus_zero(const Rewriter& graph, const Node& node) {
  const std::string_view op = node.op->name;
  const bool additive = op == "Add" || op == "Sub";
  const bool commutes = op == "Add" || op == "Mul";
  for (int side = 1; side >= (commutes ? 0 : 1); --side) {
    const ValueId x = node.inputs[1 - side];
    if (graph.constant(x) == nullptr && all_equal(graph, node.inputs[side], additive ? 0 : 1)) {
      return {additive ? "drop-plus-zero" : "drop-times-one", x};
    }
  }
  return {};
}

Identity identity(const Rewriter& graph, int n) {
  const Node& node = graph.node(n);
  const std::string_view op = node.op->name;
  const auto all = [&](size_t i, std::string_view attribute, int64_t wanted) {
    const auto values = integers(graph, n, i, attribute);
    return values &&
           std::all_of(values->begin(), values->end(), [&](int64_t v) { return v == wanted; });
  };
  const auto absent = [&](size_t i) { return i >= node.inputs.size() || node.inputs[i] == kNone; };
  if (op == "Identity") return {"drop-identity", node.inputs[0]};
  if (op == "Cast") return {"drop-cast", node.inputs[0]};  // replace() compares types
  if (one_of(op, {"Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand"})) {
    return {"drop-reshape", node.inputs[0]};  // replace() compares shapes
  }
  if (op == "Transpose") {
    const auto perm = permutation(graph, n);
    if (std::is_sorted(perm.begin(), perm.end())) return {"drop-transpose", node.inputs[0]};
    return {};
  }
  if (op == "Pad" && all(1, "pads", 0)) return {"drop-pad", node.inputs[0]};
  if (op == "Slice" && (absent(4) || all(4, "", 1))) return {"drop-slice", node.inputs[0]};
  if (op == "Concat" && node.inputs.size() == 1) return {"drop-concat", node.inputs[0]};
  if (one_of(op, {"Add", "Sub", "Mul", "Div"})) return times_one_or_plus_zero(graph, node);
  return {};
}

bool same(const Rewriter& graph, ValueId a, ValueId b) {
  return graph.dtype(a) == graph.dtype(b) && graph.shape(a) == graph.shape(b);
}

// Node n becomes Reshape of `x` to the shape its output has.
void reshape(Rewriter& graph, int n, ValueId x) {
  const Shape shape = graph.shape(graph.node(n).outputs[0]);
  const ValueId target = graph.add_constant("shape", Tensor::int64s(shape));
  graph.become(n, "Reshape", {x, target}, {});
}

bool has_zero(const Shape& shape) {
  return std::find(shape.begin(), shape.end(), 0) != shape.end();
}

void gather_first_axis(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  Shape places = graph.shape(node.inputs[1]);
  if (places.empty() || places.back() != 1 || node.attributes.integer("batch_dims", 0) != 0 ||
      has_zero(places) || has_zero(graph.shape(node.inputs[0])) ||
      !context.allow("gather-nd", node.name)) {
    return;
  }
  places.pop_back();
  const ValueId indices = graph.insert(
      n, "Reshape", {node.inputs[1], graph.add_constant("shape", Tensor::int64s(places))}, {},
      graph.dtype(node.inputs[1]), places, node.name + ".places");
  Attributes attributes;
  attributes.set("axis", int64_t{0});
  graph.become(n, "Gather", {node.inputs[0], indices}, attributes);
}

void canonicalise(Rewriter& graph, int n, PassContext& context) {
  const std::string name = graph.node(n).name;
  const std::string_view op = graph.node(n).op->name;
  if (op == "GatherND") return gather_first_axis(graph, n, context);
  if (!one_of(op, {"Squeeze", "Unsqueeze", "Flatten", "Reshape", "Transpose"})) return;
  const ValueId x = graph.node(n).inputs[0], y = graph.node(n).outputs[0];
  // In a target, 0 means "as in the input", so empty tensors keep the form they came in.
  if (graph.dtype(x) != graph.dtype(y) || has_zero(graph.shape(y))) return;
  if (one_of(op, {"Squeeze", "Unsqueeze", "Flatten"})) {
    if (context.allow("canonical-reshape", name)) reshape(graph, n, x);
  } else if (op == "Reshape") {
    const Tensor* target = graph.constant(graph.node(n).inputs[1]);
    if ((target == nullptr || target->as_int64s() != graph.shape(y)) &&
        context.allow("canonical-reshape", name)) {
      reshape(graph, n, x);
    }
    const int before = graph.maker(x, "Reshape");
    if (before >= 0 && context.allow("reshape-of-reshape", name)) {
      reshape(graph, n, graph.node(before).inputs[0]);
    }
  } else if (op == "Transpose") {
    const int before = graph.maker(x, "Transpose");
    if (before >= 0 && context.allow("transpose-of-transpose", name)) {
      const auto first = permutation(graph, before), second = permutation(graph, n);
      std::vector<int64_t> both;
      for (int64_t axis : second) both.push_back(first[static_cast<size_t>(axis)]);
      Attributes attributes;
      attributes.set("perm", both);
      graph.become(n, "Transpose", {graph.node(before).inputs[0]}, attributes);
    }
    // Axes of one element may move anywhere; the order of the others is what counts.
    const Shape& shape = graph.shape(graph.node(n).inputs[0]);
    std::vector<int64_t> moved;
    for (int64_t axis : permutation(graph, n)) {
      if (shape[static_cast<size_t>(axis)] != 1) moved.push_back(axis);
    }
    const auto perm = permutation(graph, n);
    if (std::is_sorted(moved.begin(), moved.end()) && !std::is_sorted(perm.begin(), perm.end()) &&
        context.allow("transpose-as-reshape", name)) {
      reshape(graph, n, graph.node(n).inputs[0]);
    }
  }
}

void run(ir::Graph& graph, PassContext& context) {
  // A node dropped may bring two Reshapes together that were passed already: until nothing changes.
  for (size_t before = context.count() + 1; before != context.count();) {
    before = context.count();
    Rewriter rewriter(graph);
    for (int n = 0; n < rewriter.count(); ++n) {
      if (!rewriter.alive(n) || rewriter.constant(rewriter.node(n).outputs[0]) != nullptr) continue;
      canonicalise(rewriter, n, context);
      const Identity found = identity(rewriter, n);
      if (found.rule.empty()) continue;
      const Node& node = rewriter.node(n);
      if (!same(rewriter, found.input, node.outputs[0])) continue;
      if (!rewriter.can_replace(node.outputs[0], found.input)) continue;
      if (!context.allow(found.rule, node.name)) continue;
      rewriter.replace(node.outputs[0], found.input);
    }
    rewriter.finish();
  }
}

}  // namespace

const Pass kRemoveIdentity{.name = "remove-identity",
                           .summary = "drop nodes that change nothing, one form for shape changes",
                           .rules = kRules,
                           .run = run};

}  // namespace stretto::passes
