#include "stretto/import/onnx/pieces.h"

#include <algorithm>
#include <tuple>

#include "stretto/base/interrupt.h"
#include "stretto/import/onnx/builder.h"
#include "stretto/import/onnx/inputs.h"
#include "stretto/ir/not_straight.h"

namespace stretto::onnx {
namespace {

constexpr int kMaxNesting = 64;

// What a graph uses from around it, added to `free`.
void add_free_names(const Source& source, const WireGraph& graph, const AttributeScope* scope,
                    int depth, std::set<std::string_view>& free);

void add_reads(const Source& source, const WireNode& node, const AttributeScope* scope, int depth,
               std::set<std::string_view>& reads) {
  for (std::string_view input : node.inputs) {
    if (!input.empty()) reads.insert(input);
  }
  for (const auto& [name, attribute] : resolve_attributes(source, node.attributes, scope)) {
    if (attribute.type != AttributeType::kGraph) continue;
    if (depth >= kMaxNesting) source.fail(node.position, "graphs are nested too deeply");
    add_free_names(source, read_graph_attribute(source, attribute), scope, depth + 1, reads);
  }
}

void add_free_names(const Source& source, const WireGraph& graph, const AttributeScope* scope,
                    int depth, std::set<std::string_view>& free) {
  std::set<std::string_view> used(graph.outputs.begin(), graph.outputs.end()), own;
  for (const WireInput& input : graph.inputs) own.insert(input.name);
  for (const WireTensor& tensor : graph.initializers) own.insert(tensor.name);
  for (const WireNode& node : graph.nodes) {
    add_reads(source, node, scope, depth, used);
    own.insert(node.outputs.begin(), node.outputs.end());
  }
  std::set_difference(used.begin(), used.end(), own.begin(), own.end(),
                      std::inserter(free, free.end()));
}

// The same error, beginning with the file.
template <typename F>
auto with_file(const Source& source, F&& f) {
  const auto named = [&](const std::string& text) {
    return text.starts_with(source.name) ? text : fmt::format("{}: {}", source.name, text);
  };
  try {
    return f();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(named(error.what()));
  } catch (const Unsupported& error) {
    throw Unsupported(named(error.what()));
  }
}

}  // namespace

struct Body::Context {
  const Source& source;
  const WireModel& model;
  TensorReader& tensors;
  const FunctionIndex functions;
};

std::unique_ptr<Body> Body::of_model(const Source& source, const WireModel& model,
                                     TensorReader& tensors) {
  std::shared_ptr<Context> context(
      new Context{source, model, tensors, FunctionIndex(source, model.functions)});
  const int64_t opset = default_opset(model.opsets, kNewestOpset);
  return std::unique_ptr<Body>(new Body(context, *model.graph, opset, 0, "", nullptr));
}

Body::~Body() = default;

Body::Body(std::shared_ptr<Context> context, WireGraph graph, int64_t opset, int depth,
           std::string prefix, const AttributeScope* attributes)
    : context_(std::move(context)),
      graph_(std::move(graph)),
      opset_(opset),
      depth_(depth),
      prefix_(std::move(prefix)),
      attributes_(attributes) {
  const Source& source = context_->source;
  check_operators(source, graph_.nodes, context_->model.opsets, context_->functions);
  for (const WireTensor& tensor : graph_.initializers) {
    if (tensor.name.empty()) source.fail(tensor.body.data(), "an initialiser has no name");
    initializers_.emplace(tensor.name, tensor);
  }
  if (depth_ == 0) graph_.inputs = fed_inputs(graph_);
  for (WireNode& wire : graph_.nodes) {
    // A Constant of strings is an initialiser in other words.
    if (auto strings = constant_strings(source, wire, attributes, context_->tensors)) {
      if (wire.outputs.size() != 1) {
        source.fail(wire.position, "Constant \"{}\": expected one output", wire.name);
      }
      strings_.emplace(wire.outputs[0], std::move(*strings));
      continue;
    }
    Node node{.wire = std::move(wire), .reads = {}};
    node.is_call = context_->functions.find(node.wire) != nullptr;
    find_reads(node);
    nodes_.push_back(std::move(node));
  }
  graph_.nodes.clear();
}

const Source& Body::source() const { return context_->source; }

void Body::find_reads(Node& node) const {
  std::set<std::string_view> reads;
  add_reads(context_->source, node.wire, attributes_, depth_, reads);
  node.reads.assign(reads.begin(), reads.end());
}

std::optional<AnyValue> Body::constant(std::string_view name) const {
  if (const auto at = strings_.find(name); at != strings_.end()) return at->second;
  const auto at = initializers_.find(name);
  if (at == initializers_.end()) return std::nullopt;
  const WireTensor& tensor = at->second;
  if (tensor.is_sparse) return context_->tensors.read_sparse(tensor.body);
  return context_->tensors.read_value(tensor.body);
}

bool Body::has_constant(std::string_view name) const {
  return strings_.contains(name) || initializers_.contains(name);
}

Piece Body::piece(std::span<const size_t> nodes, const Lookup& lookup) const {
  return import(nodes, lookup, false);
}

Piece Body::single(std::span<const size_t> nodes, const Lookup& lookup) const {
  return import(nodes, lookup, true);
}

Piece Body::import(std::span<const size_t> nodes, const Lookup& lookup, bool all) const {
  Piece piece;
  piece.model.format = "onnx";
  piece.model.source = context_->source.name;
  piece.model.graph.name = graph_.name.empty() ? "piece" : std::string(graph_.name);
  with_file(context_->source, [&] {
    Builder(context_->source, context_->model, context_->tensors, piece.model.graph)
        .build_piece(*this, nodes, lookup, all, piece);
  });
  return piece;
}

ir::Attributes Body::attributes(size_t index) const {
  const WireNode& wire = nodes_[index].wire;
  const Source& source = context_->source;
  WireNode plain = wire;
  plain.attributes.clear();
  ir::Attributes strings;
  for (std::string_view message : wire.attributes) {
    const WireAttribute attribute = read_attribute(source, message);
    if (attribute.type == AttributeType::kTypeProto || attribute.type == AttributeType::kGraph) {
      continue;
    }
    if (attribute.type == AttributeType::kTensor && attribute.reference.empty()) {
      const AnyValue value = context_->tensors.read_value(tensor_attribute(source, attribute));
      if (value.is_strings()) {
        strings.set(std::string(attribute.name), value.strings().values);
        continue;
      }
    }
    plain.attributes.push_back(message);
  }
  ir::Attributes all = read_attributes(source, plain, attributes_, context_->tensors).plain;
  for (const auto& [name, value] : strings.all()) all.set(name, value);
  if (wire.op == "Cast") {  // from strings, or to them
    const auto type = static_cast<DataType>(all.integer("to", 0));
    if (type != DataType::kString) {
      all.set("dtype", std::string(dtype_name(element_type(source, type, "Cast", wire.position))));
    }
  }
  return all;
}

const Body* Body::graph(size_t index, std::string_view attribute) const {
  const auto key = std::pair(index, attribute);
  if (const auto at = inner_.find(key); at != inner_.end()) return at->second.get();
  const WireNode& wire = nodes_[index].wire;
  const Source& source = context_->source;
  if (depth_ >= kMaxNesting) {
    source.fail(wire.position, "{} \"{}\": graphs are nested too deeply", wire.op, wire.name);
  }
  const AttributeScope all = resolve_attributes(source, wire.attributes, attributes_);
  const auto at = all.find(attribute);
  if (at == all.end() || at->second.type != AttributeType::kGraph) return nullptr;
  std::unique_ptr<Body> body(new Body(context_, read_graph_attribute(source, at->second), opset_,
                                      depth_ + 1, prefix_, attributes_));
  return (inner_[{index, at->first}] = std::move(body)).get();
}

const Body& Body::function(size_t index) const {
  const auto key = std::pair(index, std::string_view());
  if (const auto at = inner_.find(key); at != inner_.end()) return *at->second;
  const WireNode& wire = nodes_[index].wire;
  const Source& source = context_->source;
  const WireFunction& function = *context_->functions.find(wire);
  const auto fail = [&](std::string_view problem) {
    source.fail(wire.position, "call \"{}\" of function {}: {}", wire.name, wire.op, problem);
  };
  if (depth_ >= kMaxNesting) fail("functions call each other without end");
  if (wire.inputs.size() > function.inputs.size()) fail("more inputs than the function has");
  if (wire.outputs.size() > function.outputs.size()) fail("more outputs than the function has");
  WireGraph graph{.name = function.name, .nodes = function.nodes};
  for (std::string_view name : function.inputs) graph.inputs.push_back({.name = name});
  graph.outputs = function.outputs;
  graph.output_types.resize(graph.outputs.size());
  graph.position = function.position;
  // The caller's attributes come last, so that they replace the defaults.
  AttributeScope given = resolve_attributes(source, function.attribute_defaults, nullptr);
  for (auto& [name, attribute] : resolve_attributes(source, wire.attributes, attributes_)) {
    given.insert_or_assign(name, attribute);
  }
  const std::string_view label =
      !wire.name.empty() || wire.outputs.empty() ? wire.name : wire.outputs[0];
  auto scope = std::make_unique<AttributeScope>(std::move(given));
  std::unique_ptr<Body> body(new Body(context_, std::move(graph),
                                      default_opset(function.opsets, opset_), depth_ + 1,
                                      fmt::format("{}{}/", prefix_, label), scope.get()));
  // The reads were found with the attributes of the call, which live as long as the body.
  body->own_attributes_ = std::move(*scope);
  body->attributes_ = &body->own_attributes_;
  return *(inner_[key] = std::move(body));
}

std::optional<ir::ValueId> Builder::look_outside(const Scope& scope, std::string_view name) {
  if (outside_ == nullptr) return std::nullopt;
  // Bodies of functions do not see what is around them.
  const Scope* outermost = &scope;
  while (outermost->outer != nullptr) outermost = outermost->outer;
  if (outermost != &outside_->root) return std::nullopt;
  Scope& root = outside_->root;
  Meaning meaning = outside_->lookup(name);
  switch (meaning.kind) {
    case Meaning::Kind::kUnknown:
      return std::nullopt;
    case Meaning::Kind::kAbsent:
      return ir::kNone;
    case Meaning::Kind::kOther:
      ir::throw_not_straight("{}: \"{}\" is no tensor of numbers", source_.name, name);
    case Meaning::Kind::kConstant: {
      const ir::ValueId id = emitter_.add_constant(name, std::move(meaning.constant));
      root.names.emplace(name, id);
      return id;
    }
    case Meaning::Kind::kTensor:
      break;
  }
  const ir::ValueId id = emitter_.add_value(name);
  root.names.emplace(name, id);
  ir::Value& value = emitter_.graph().value(id);
  value.dtype = meaning.dtype;
  value.shape = std::move(meaning.shape);
  emitter_.graph().inputs.push_back(id);
  outside_->piece.inputs.push_back(name);
  return id;
}

void Builder::build_piece(const Body& body, std::span<const size_t> nodes, const Lookup& lookup,
                          bool all, Piece& piece) {
  Scope root{.attributes = body.attributes_,
             .opset = body.opset_,
             .depth = body.depth_,
             .prefix = body.prefix_};
  Outside outside{lookup, root, piece};
  outside_ = &outside;
  ir::Graph& graph = emitter_.graph();
  for (const size_t index : nodes) {
    check_interrupt();
    const Body::Node& node = body.nodes_[index];
    const bool waits = std::any_of(node.reads.begin(), node.reads.end(), [&](std::string_view n) {
      const auto at = root.names.find(n);
      return at != root.names.end() && at->second == kLater;
    });
    bool straight = false;
    if (!waits) {
      const size_t before = graph.nodes.size();
      const auto charged = std::pair(expanded_items_, expanded_bytes_);
      try {
        add_node(root, node.wire);
        straight = true;
      } catch (const ir::NotStraight&) {
        graph.nodes.erase(graph.nodes.begin() + static_cast<std::ptrdiff_t>(before),
                          graph.nodes.end());
        std::tie(expanded_items_, expanded_bytes_) = charged;
      }
    }
    if (straight) continue;
    (waits ? piece.later : piece.ready).push_back(index);
    // Also where an attempt has given them values already.
    for (std::string_view output : node.wire.outputs) {
      if (!output.empty()) root.names.insert_or_assign(output, kLater);
    }
  }
  std::set<std::string_view> wanted(body.graph_.outputs.begin(), body.graph_.outputs.end());
  for (const auto* list : {&piece.ready, &piece.later}) {
    for (const size_t index : *list) {
      wanted.insert(body.nodes_[index].reads.begin(), body.nodes_[index].reads.end());
    }
  }
  std::set<std::string_view> made;
  for (const size_t index : nodes) {
    for (std::string_view output : body.nodes_[index].wire.outputs) {
      if (!output.empty() && (all || wanted.count(output) > 0)) made.insert(output);
    }
  }
  finish_piece(made, outside);
  outside_ = nullptr;
}

// Sorts out what names that somebody still wants have become.
void Builder::finish_piece(const std::set<std::string_view>& wanted, Outside& outside) {
  ir::Graph& graph = emitter_.graph();
  Piece& piece = outside.piece;
  std::map<ir::ValueId, size_t> places;
  for (std::string_view name : wanted) {
    const auto at = outside.root.names.find(name);
    if (at == outside.root.names.end() || at->second == kLater) continue;
    const ir::ValueId id = at->second;
    if (id == kDropped) use(outside.root, name, nullptr);  // says why
    if (id == ir::kNone) {
      piece.constants.emplace_back(name, AnyValue());
      continue;
    }
    const ir::Value& value = graph.value(id);
    const auto input = std::find(graph.inputs.begin(), graph.inputs.end(), id);
    if (value.is_constant()) {
      piece.constants.emplace_back(name, value.constant);
    } else if (input != graph.inputs.end()) {
      piece.same.emplace_back(name,
                              piece.inputs[static_cast<size_t>(input - graph.inputs.begin())]);
    } else {
      const auto [place, fresh] = places.try_emplace(id, graph.outputs.size());
      if (fresh) graph.outputs.push_back(id);
      piece.outputs.emplace_back(name, place->second);
    }
  }
  // Nodes that were taken back, and those whose results nobody wants, leave inputs behind.
  ir::remove_dead(graph);
  const ir::Links links(graph);
  std::vector<ir::ValueId> inputs;
  std::vector<std::string_view> names;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    if (links.users[graph.inputs[i]].empty()) continue;
    inputs.push_back(graph.inputs[i]);
    names.push_back(piece.inputs[i]);
  }
  graph.inputs = std::move(inputs);
  piece.inputs = std::move(names);
  ir::remove_dead(graph);
  ir::verify(graph);
}

}  // namespace stretto::onnx
