#include "stretto/import/onnx/builder.h"

#include <algorithm>

#include "stretto/base/interrupt.h"
#include "stretto/import/onnx/compose.h"
#include "stretto/import/onnx/inputs.h"
#include "stretto/ir/not_straight.h"

namespace stretto::onnx {
void Builder::build(const ImportOptions& options, std::vector<std::string>& notes) {
  const WireGraph& wire = *model_.graph;
  check_operators(source_, wire.nodes, model_.opsets, functions_);
  Scope scope{.opset = default_opset(model_.opsets, kNewestOpset)};
  const std::vector<WireInput> inputs = fed_inputs(wire);
  ir::Graph& graph = emitter_.graph();
  for (BoundInput& input : bind_inputs(source_, inputs, options, notes)) {
    const ir::ValueId id = define_new(scope, input.name, wire.position);
    graph.value(id).dtype = input.dtype;
    graph.value(id).shape = std::move(input.shape);
    graph.inputs.push_back(id);
  }
  add_initializers(scope, wire);
  add_nodes(scope, wire.nodes);
  add_outputs(scope);
}

ir::ValueId Builder::use(const Scope& scope, std::string_view name, const WireNode* node) {
  const ir::ValueId id = use_any(scope, name, node);
  if (id <= kFirstSequence) {
    ir::throw_not_straight("{}: \"{}\" is a sequence, no tensor", source_.name, name);
  }
  return id;
}

ir::ValueId Builder::use_any(const Scope& scope, std::string_view name, const WireNode* node) {
  const auto user = [&] {
    return node == nullptr ? "the graph's output" : fmt::format("{} \"{}\"", node->op, node->name);
  };
  for (const Scope* at = &scope; at != nullptr; at = at->outer) {
    const auto found = at->names.find(name);
    if (found == at->names.end()) continue;
    if (found->second == kDropped) {
      throw_unsupported("{}: {} needs \"{}\": {}", source_.name, user(), name, dropped_.at(name));
    }
    if (found->second == kLater) {
      ir::throw_not_straight("{}: {} needs \"{}\", which is no tensor of numbers", source_.name,
                             user(), name);
    }
    return found->second;
  }
  if (const auto found = look_outside(scope, name)) return *found;
  source_.fail(node == nullptr ? model_.graph->position : node->position,
               "{} needs \"{}\", which nothing in the model makes", user(), name);
}

void Builder::define(Scope& scope, std::string_view name, ir::ValueId id, const char* position) {
  // What runs between the stages of a model makes the sequences that it uses.
  if (id <= kFirstSequence && outside_ != nullptr && &scope == &outside_->root) {
    ir::throw_not_straight("{}: \"{}\" is a sequence, no tensor", source_.name, name);
  }
  if (!scope.names.try_emplace(name, id).second) {
    source_.fail(position, "value \"{}\" is defined twice", name);
  }
}

ir::ValueId Builder::define_new(Scope& scope, std::string_view name, const char* position) {
  const ir::ValueId id = emitter_.add_value(scope.prefix + std::string(name));
  define(scope, name, id, position);
  return id;
}

// A value made while expanding something is known by the name that the caller gave it.
void Builder::adopt_name(const Scope& scope, std::string_view name, ir::ValueId id,
                         size_t first_new) {
  if (id >= 0 && static_cast<size_t>(id) >= first_new) {
    emitter_.rename(id, scope.prefix + std::string(name));
  }
}

void Builder::add_initializers(Scope& scope, const WireGraph& graph) {
  for (const WireTensor& tensor : graph.initializers) {
    if (tensor.name.empty()) source_.fail(tensor.body.data(), "an initialiser has no name");
    if (!tensor.is_sparse && is_strings(source_, tensor.body)) {
      define(scope, tensor.name, kLater, tensor.body.data());
      continue;
    }
    const std::string label = scope.prefix + std::string(tensor.name);
    Tensor value =
        tensor.is_sparse ? tensors_.read_sparse(tensor.body) : tensors_.read(tensor.body);
    define(scope, tensor.name, emitter_.add_constant(label, std::move(value)), tensor.body.data());
  }
}

void Builder::add_nodes(Scope& scope, const std::vector<WireNode>& nodes) {
  for (const WireNode& node : nodes) {
    check_interrupt();
    add_node(scope, node);
  }
}

void Builder::add_node(Scope& scope, const WireNode& node) {
  if (scope.depth > 0) charge(scope, node);
  if (const WireFunction* function = functions_.find(node)) return call(scope, node, *function);
  if (add_known_sequence(scope, node)) return;
  if (!is_straight(node, scope.opset)) {
    ir::throw_not_straight("{}: {} \"{}\": works on what is no tensor of numbers", source_.name,
                           node.op, node.name);
  }
  if (constant_strings(source_, node, scope.attributes, tensors_)) {
    if (node.outputs.size() != 1) {
      source_.fail(node.position, "Constant \"{}\": expected one output", node.name);
    }
    return define(scope, node.outputs[0], kLater, node.position);
  }
  NodeAttributes attributes = read_attributes(source_, node, scope.attributes, tensors_);
  if (node.op == "Constant") return add_constant(scope, node, attributes.plain);
  if (node.op == "If") return take_branch(scope, node, attributes);
  if (!attributes.graphs.empty() && find_composition(node.domain, node.op) == nullptr) {
    throw_unsupported("{}: {} \"{}\": a graph as attribute {} is not supported", source_.name,
                      node.op, node.name, attributes.graphs.begin()->first);
  }
  add_operator(scope, node, attributes);
}

void Builder::add_operator(Scope& scope, const WireNode& node, const NodeAttributes& attributes) {
  PendingNode pending{.emitter = emitter_,
                      .source = source_,
                      .opset = scope.opset,
                      .op = std::string(node.op),
                      .name = scope.prefix + std::string(node.name),
                      .output_count = node.outputs.size(),
                      .attributes = attributes.plain};
  std::map<std::string_view, WireGraph> graphs;
  for (const auto& [name, message] : attributes.graphs) {
    graphs.emplace(name, read_graph(source_, message));
    pending.graphs.insert(name);
  }
  pending.inline_graph = [&](std::string_view name, const std::vector<ir::ValueId>& inputs) {
    return inline_graph(scope, node, graphs.at(name), inputs);
  };
  if (node.name.empty() && !node.outputs.empty()) {
    pending.name = scope.prefix + std::string(node.outputs[0]);
  }
  const bool is_loop = node.domain.empty() && node.op == "Loop";
  for (std::string_view input : node.inputs) {
    const bool carried = is_loop && pending.inputs.size() >= 2;
    pending.inputs.push_back(input.empty() ? ir::kNone
                             : carried     ? use_any(scope, input, &node)
                                           : use(scope, input, &node));
  }
  const size_t first_new = emitter_.graph().values.size();
  if (node.domain.empty()) upgrade(pending);
  if (const CompositionRow* composition = find_composition(node.domain, pending.op)) {
    composition->apply(pending);
  }
  if (!pending.results.empty()) return take_results(scope, node, pending, first_new);
  while (!pending.inputs.empty() && pending.inputs.back() == ir::kNone) pending.inputs.pop_back();

  std::vector<ir::ValueId> outputs;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string_view name = node.outputs[i];
    const auto dropped = pending.dropped_outputs.find(i);
    if (name.empty()) {
      outputs.push_back(ir::kNone);
    } else if (dropped != pending.dropped_outputs.end()) {
      define(scope, name, kDropped, node.position);
      dropped_[name] = dropped->second;
      outputs.push_back(ir::kNone);
    } else {
      outputs.push_back(define_new(scope, name, node.position));
    }
  }
  while (!outputs.empty() && outputs.back() == ir::kNone) outputs.pop_back();
  emitter_.add_node(pending.op, std::move(pending.inputs), std::move(outputs),
                    std::move(pending.attributes), pending.name);
}

// The outputs of a node that other nodes made.
void Builder::take_results(Scope& scope, const WireNode& node, const PendingNode& pending,
                           size_t first_new) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const std::string_view name = node.outputs[i];
    if (name.empty()) continue;
    if (i >= pending.results.size() || pending.results[i] == ir::kNone) {
      const auto reason = pending.dropped_outputs.find(i);
      define(scope, name, kDropped, node.position);
      dropped_[name] = reason != pending.dropped_outputs.end()
                           ? reason->second
                           : fmt::format("output {} of {} is not supported", i, node.op);
      continue;
    }
    define(scope, name, pending.results[i], node.position);
    adopt_name(scope, name, pending.results[i], first_new);
  }
}

void Builder::add_constant(Scope& scope, const WireNode& node, const ir::Attributes& attributes) {
  const auto fail = [&](std::string_view problem) {
    source_.fail(node.position, "Constant \"{}\": {}", node.name, problem);
  };
  if (node.outputs.size() != 1 || node.outputs[0].empty()) fail("expected one output");
  if (attributes.all().size() != 1) fail("expected one attribute with the value");
  const auto& [kind, attribute] = *attributes.all().begin();
  Tensor value;
  if (kind == "value" || kind == "sparse_value") {
    if (const auto* tensor = std::get_if<Tensor>(&attribute)) value = *tensor;
  } else if (kind == "value_int") {
    value = Tensor::scalar<int64_t>(attributes.integer(kind, 0));
  } else if (kind == "value_ints") {
    value = Tensor::int64s(attributes.integers(kind, {}));
  } else if (kind == "value_float") {
    value = Tensor::scalar<float>(static_cast<float>(attributes.number(kind, 0)));
  } else if (kind == "value_floats") {
    const std::vector<double> numbers = attributes.numbers(kind, {});
    const std::vector<float> floats(numbers.begin(), numbers.end());
    value = Tensor::of<float>({static_cast<int64_t>(floats.size())}, floats);
  } else {
    ir::throw_not_straight("{}: Constant \"{}\": {} is not supported, only numbers are",
                           source_.name, node.name, kind);
  }
  if (!value.defined()) fail("attribute value is no tensor");
  const std::string label = scope.prefix + std::string(node.outputs[0]);
  define(scope, node.outputs[0], emitter_.add_constant(label, std::move(value)), node.position);
}

void Builder::add_outputs(const Scope& scope) {
  ir::Graph& graph = emitter_.graph();
  if (model_.graph->outputs.empty()) {
    source_.fail(model_.graph->position, "the graph has no outputs");
  }
  for (std::string_view name : model_.graph->outputs) {
    if (name.empty()) source_.fail(model_.graph->position, "an output of the graph has no name");
    ir::ValueId id = use(scope, name, nullptr);
    // The name of an output is part of the model's face; a value with two names needs a copy.
    if (emitter_.value(id).name != name) {
      const ir::ValueId copy = emitter_.add_value(name);
      emitter_.add_node("Identity", {id}, {copy}, {}, name);
      id = copy;
    }
    graph.outputs.push_back(id);
  }
}

}  // namespace stretto::onnx
