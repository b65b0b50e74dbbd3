// Function calls and branches whose condition is known: their nodes take the place of the call.
#include <algorithm>
#include <utility>

#include "stretto/import/onnx/builder.h"
#include "stretto/ir/not_straight.h"

namespace stretto::onnx {
namespace {

// Calls that call further functions twice grow as 2^depth, so a file of a kilobyte could fill any
// memory. Nodes, inputs and outputs made by expansion, and bytes of names and attributes read for
// it:
constexpr int64_t kMaxExpandedItems = 200'000;
constexpr int64_t kMaxExpandedBytes = int64_t{256} << 20;
constexpr int kMaxDepth = 64;

}  // namespace

void Builder::charge(size_t items, size_t bytes) {
  expanded_items_ += static_cast<int64_t>(items);
  expanded_bytes_ += static_cast<int64_t>(bytes);
  if (expanded_items_ > kMaxExpandedItems || expanded_bytes_ > kMaxExpandedBytes) {
    const std::string text = fmt::format(
        "{}: expanding the model's functions and loops makes more than {} nodes or {} MiB",
        source_.name, kMaxExpandedItems, kMaxExpandedBytes >> 20);
    if (unrolling_) throw ir::NotStraight(text);  // turn by turn it can run
    throw Unsupported(text);
  }
}

void Builder::charge(const Scope& scope, const WireNode& node) {
  size_t bytes = node.name.size() + scope.prefix.size() * (1 + node.outputs.size());
  for (std::string_view output : node.outputs) bytes += output.size();
  for (std::string_view attribute : node.attributes) bytes += attribute.size();
  charge(1 + node.inputs.size() + node.outputs.size(), bytes);
}

void Builder::call(Scope& scope, const WireNode& node, const WireFunction& function) {
  const auto fail = [&](std::string_view problem) {
    source_.fail(node.position, "call \"{}\" of function {}: {}", node.name, node.op, problem);
  };
  if (scope.depth >= kMaxDepth) fail("functions call each other without end");
  if (node.inputs.size() > function.inputs.size()) fail("more inputs than the function has");
  if (node.outputs.size() > function.outputs.size()) fail("more outputs than the function has");

  size_t default_bytes = 0;
  for (std::string_view value : function.attribute_defaults) default_bytes += value.size();
  charge(function.inputs.size(), default_bytes);

  // The caller's attributes come last, so that they replace the defaults.
  AttributeScope attributes = resolve_attributes(source_, function.attribute_defaults, nullptr);
  for (auto& [name, attribute] : resolve_attributes(source_, node.attributes, scope.attributes)) {
    attributes.insert_or_assign(name, attribute);
  }
  const std::string_view label =
      !node.name.empty() || node.outputs.empty() ? node.name : node.outputs[0];
  Scope body{.attributes = &attributes,
             .opset = default_opset(function.opsets, scope.opset),
             .depth = scope.depth + 1,
             .prefix = fmt::format("{}{}/", scope.prefix, label)};
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    const bool given = i < node.inputs.size() && !node.inputs[i].empty();
    define(body, function.inputs[i], given ? use_any(scope, node.inputs[i], &node) : ir::kNone,
           function.position);
  }
  const size_t first_new = emitter_.graph().values.size();
  add_nodes(body, function.nodes);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const ir::ValueId id = use_any(body, function.outputs[i], &node);
    define(scope, node.outputs[i], id, node.position);
    adopt_name(scope, node.outputs[i], id, first_new);
  }
}

std::vector<ir::ValueId> Builder::inline_graph(const Scope& scope, const WireNode& node,
                                               const WireGraph& graph,
                                               const std::vector<ir::ValueId>& inputs) {
  const auto fail = [&](std::string_view problem) {
    source_.fail(node.position, "{} \"{}\": {}", node.op, node.name, problem);
  };
  struct Unrolling {
    bool& flag;
    const bool before = std::exchange(flag, true);
    ~Unrolling() { flag = before; }
  } unrolling{unrolling_};
  if (scope.depth >= kMaxDepth) fail("graphs are nested too deeply");
  if (graph.inputs.size() != inputs.size()) fail("its graph has another number of inputs");
  check_operators(source_, graph.nodes, model_.opsets, functions_);
  charge(1 + graph.inputs.size() + graph.initializers.size(), 0);
  Scope body{.outer = &scope,
             .attributes = scope.attributes,
             .opset = scope.opset,
             .depth = scope.depth + 1,
             .prefix = scope.prefix};
  for (size_t i = 0; i < inputs.size(); ++i) {
    define(body, graph.inputs[i].name, inputs[i], graph.position);
  }
  add_initializers(body, graph);
  add_nodes(body, graph.nodes);
  std::vector<ir::ValueId> outputs;
  for (std::string_view name : graph.outputs) {
    // Behind the condition, what a loop carries may be sequences.
    const bool carried =
        node.op == "Loop" && !outputs.empty() && outputs.size() + 1 < inputs.size();
    outputs.push_back(carried ? use_any(body, name, &node) : use(body, name, &node));
  }
  return outputs;
}

void Builder::take_branch(Scope& scope, const WireNode& node, const NodeAttributes& attributes) {
  const auto fail = [&](std::string_view problem) {
    source_.fail(node.position, "If \"{}\": {}", node.name, problem);
  };
  if (scope.depth >= kMaxDepth) fail("branches are nested too deeply");
  if (node.inputs.size() != 1 || node.inputs[0].empty()) fail("expected one input");
  const ir::ValueId id = use(scope, node.inputs[0], &node);
  const Tensor* condition =
      id != ir::kNone && emitter_.value(id).is_constant() ? &emitter_.value(id).constant : nullptr;
  if (condition == nullptr) {
    ir::throw_not_straight(
        "{}: If \"{}\": its condition must be known when the model is optimised, but it depends on "
        "the model's input values",
        source_.name, node.name);
  }
  if (condition->count() != 1 || condition->dtype() != DType::kBool) fail("expected one bool");
  const bool truth = condition->as_int64s()[0] != 0;
  const auto branch = attributes.graphs.find(truth ? "then_branch" : "else_branch");
  if (branch == attributes.graphs.end()) fail("the branch that is taken is missing");

  const WireGraph graph = read_graph(source_, branch->second);
  check_operators(source_, graph.nodes, model_.opsets, functions_);
  if (!graph.inputs.empty()) fail("a branch has no inputs");
  if (graph.outputs.size() != node.outputs.size()) fail("a branch has other outputs than the node");
  Scope body{.outer = &scope,
             .attributes = scope.attributes,
             .opset = scope.opset,
             .depth = scope.depth + 1,
             .prefix = scope.prefix};
  const size_t first_new = emitter_.graph().values.size();
  add_initializers(body, graph);
  add_nodes(body, graph.nodes);
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty()) continue;
    const ir::ValueId made = use_any(body, graph.outputs[i], &node);
    define(scope, node.outputs[i], made, node.position);
    adopt_name(scope, node.outputs[i], made, first_new);
  }
}

}  // namespace stretto::onnx
