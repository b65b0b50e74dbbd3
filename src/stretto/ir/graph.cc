#include "stretto/ir/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/ir/operator.h"

namespace stretto::ir {
namespace {

template <typename T>
const T* typed(const Attributes& attributes, std::string_view name, std::string_view kind) {
  const Attribute* found = attributes.find(name);
  if (found == nullptr) return nullptr;
  const T* value = std::get_if<T>(found);
  if (value == nullptr) throw_invalid("attribute {}: expected {}", name, kind);
  return value;
}

// The number in `name`, if it is `base` and "_" and that number as numbers are written; else 0.
size_t suffix_of(std::string_view name, std::string_view base) {
  if (name.size() < base.size() + 2 || name[base.size()] != '_' || name[base.size() + 1] == '0')
    return 0;
  size_t suffix = 0;
  const char* const end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + base.size() + 1, end, suffix);
  return error == std::errc() && at == end ? suffix : 0;
}

// `base`, or base_1 and so on: the first that no value has. One look at each value, for unrolled
// loops have thousands of one base; an index kept beside them would have to follow every rename.
std::string unique_name(const Graph& graph, std::string_view base) {
  bool taken = false;
  std::vector<size_t> suffixes;
  for (const Value& value : graph.values) {
    if (!value.name.starts_with(base)) continue;
    taken |= value.name.size() == base.size();
    if (const size_t suffix = suffix_of(value.name, base)) suffixes.push_back(suffix);
  }
  if (!taken) return std::string(base);
  std::vector<bool> used(suffixes.size() + 2);
  for (const size_t suffix : suffixes) {
    if (suffix < used.size()) used[suffix] = true;
  }
  const auto free = std::find(used.begin() + 1, used.end(), false);
  return fmt::format("{}_{}", base, free - used.begin());
}

}  // namespace

const Attribute* Attributes::find(std::string_view name) const {
  const auto at = entries_.find(name);
  return at == entries_.end() ? nullptr : &at->second;
}

void Attributes::set(std::string name, Attribute value) {
  entries_.insert_or_assign(std::move(name), std::move(value));
}

void Attributes::erase(std::string_view name) {
  if (const auto at = entries_.find(name); at != entries_.end()) entries_.erase(at);
}

int64_t Attributes::integer(std::string_view name, int64_t fallback) const {
  const auto* value = typed<int64_t>(*this, name, "an integer");
  return value ? *value : fallback;
}

double Attributes::number(std::string_view name, double fallback) const {
  const Attribute* found = find(name);
  if (found == nullptr) return fallback;
  if (const auto* integer = std::get_if<int64_t>(found)) return static_cast<double>(*integer);
  return *typed<double>(*this, name, "a number");
}

std::string Attributes::text(std::string_view name, std::string_view fallback) const {
  const auto* value = typed<std::string>(*this, name, "a string");
  return value ? *value : std::string(fallback);
}

std::vector<int64_t> Attributes::integers(std::string_view name,
                                          std::vector<int64_t> fallback) const {
  const auto* value = typed<std::vector<int64_t>>(*this, name, "a list of integers");
  return value ? *value : std::move(fallback);
}

std::vector<double> Attributes::numbers(std::string_view name, std::vector<double> fallback) const {
  const auto* value = typed<std::vector<double>>(*this, name, "a list of numbers");
  return value ? *value : std::move(fallback);
}

const Tensor* Attributes::tensor(std::string_view name) const {
  return typed<Tensor>(*this, name, "a tensor");
}

ValueId Graph::add_value(std::string_view name, DType dtype, std::optional<Shape> shape) {
  std::string unique = unique_name(*this, name.empty() ? "value" : name);
  values.push_back({.name = std::move(unique), .dtype = dtype, .shape = std::move(shape)});
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_constant(std::string_view name, Tensor tensor) {
  const ValueId id = add_value(name, tensor.dtype(), tensor.shape());
  value(id).constant = std::move(tensor);
  return id;
}

Node& Graph::add_node(std::string_view op, std::vector<ValueId> node_inputs,
                      std::vector<ValueId> node_outputs, Attributes attributes,
                      std::string_view node_name) {
  const Operator* row = find_operator(op);
  STRETTO_CHECK(row != nullptr, "no operator '{}'", op);
  std::string unique(node_name);
  if (unique.empty()) {
    unique = node_outputs.empty() || node_outputs[0] == kNone ? std::string(op)
                                                              : value(node_outputs[0]).name;
  }
  nodes.push_back({.op = row,
                   .name = std::move(unique),
                   .inputs = std::move(node_inputs),
                   .outputs = std::move(node_outputs),
                   .attributes = std::move(attributes)});
  return nodes.back();
}

Links::Links(const Graph& graph)
    : producer(graph.values.size(), -1),
      users(graph.values.size()),
      is_output(graph.values.size(), false) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId id : graph.nodes[n].inputs) {
      if (id != kNone) users[id].push_back(static_cast<int>(n));
    }
    for (ValueId id : graph.nodes[n].outputs) {
      if (id != kNone) producer[id] = static_cast<int>(n);
    }
  }
  for (ValueId id : graph.outputs) is_output[id] = true;
}

int Links::only_user(ValueId id) const {
  if (is_output[id] || users[id].empty()) return -1;
  for (int user : users[id]) {
    if (user != users[id].front()) return -1;
  }
  return users[id].front();
}

void replace_uses(Graph& graph, ValueId from, ValueId to) {
  if (from == to) return;
  for (Node& node : graph.nodes) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
  const bool was_output =
      std::find(graph.outputs.begin(), graph.outputs.end(), from) != graph.outputs.end();
  const bool to_is_face =
      std::find(graph.outputs.begin(), graph.outputs.end(), to) != graph.outputs.end() ||
      std::find(graph.inputs.begin(), graph.inputs.end(), to) != graph.inputs.end();
  std::replace(graph.outputs.begin(), graph.outputs.end(), from, to);
  if (was_output && !to_is_face) std::swap(graph.value(from).name, graph.value(to).name);
}

void sort(Graph& graph) {
  const Links links(graph);
  std::vector<int> waiting(graph.nodes.size(), 0);
  std::vector<std::vector<int>> followers(graph.nodes.size());
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId id : graph.nodes[n].inputs) {
      if (id == kNone || links.producer[id] < 0) continue;
      ++waiting[n];
      followers[links.producer[id]].push_back(static_cast<int>(n));
    }
  }
  // A heap of node indices keeps the order stable: among the ready, the earliest goes first.
  std::vector<int> ready;
  const auto push = [&](int n) {
    ready.push_back(n);
    std::push_heap(ready.begin(), ready.end(), std::greater<>());
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (waiting[n] == 0) push(static_cast<int>(n));
  }
  std::vector<Node> sorted;
  sorted.reserve(graph.nodes.size());
  std::vector<bool> done(graph.nodes.size(), false);
  while (!ready.empty()) {
    check_interrupt();
    std::pop_heap(ready.begin(), ready.end(), std::greater<>());
    const int n = ready.back();
    ready.pop_back();
    done[n] = true;
    for (int follower : followers[n]) {
      if (--waiting[follower] == 0) push(follower);
    }
    sorted.push_back(std::move(graph.nodes[n]));
  }
  if (sorted.size() != graph.nodes.size()) {
    std::string names;
    for (size_t n = 0, shown = 0; n < graph.nodes.size() && shown < 5; ++n) {
      if (done[n]) continue;
      names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", graph.nodes[n].name);
      ++shown;
    }
    throw_invalid("graph {}: nodes depend on each other in a cycle: {}", graph.name, names);
  }
  graph.nodes = std::move(sorted);
}

namespace {

// Kernels often lack what is rarely asked for, such as the indices of a pool.
void leave_out_unread(Node& node, const std::vector<bool>& read) {
  const std::span<const Port> ports = node.op->outputs;
  for (size_t i = 0; i < std::min(node.outputs.size(), ports.size()); ++i) {
    ValueId& id = node.outputs[i];
    if (ports[i].arity == Arity::kOptional && id != kNone && !read[id]) id = kNone;
  }
  while (!node.outputs.empty() && node.outputs.back() == kNone) node.outputs.pop_back();
}

}  // namespace

int remove_dead(Graph& graph) {
  const Links links(graph);
  std::vector<bool> needed_value(graph.values.size(), false);
  for (ValueId id : graph.outputs) needed_value[id] = true;
  std::vector<bool> needed(graph.nodes.size(), false);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    needed[n] = std::any_of(node.outputs.begin(), node.outputs.end(),
                            [&](ValueId id) { return id != kNone && needed_value[id]; });
    if (!needed[n]) continue;
    for (ValueId id : node.inputs) {
      if (id != kNone) needed_value[id] = true;
    }
  }
  std::vector<Node> kept;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (needed[n]) kept.push_back(std::move(graph.nodes[n]));
  }
  const int removed = static_cast<int>(graph.nodes.size() - kept.size());
  graph.nodes = std::move(kept);

  for (ValueId id : graph.inputs) needed_value[id] = true;
  for (Node& node : graph.nodes) {
    leave_out_unread(node, needed_value);
    // Other outputs that nobody reads still need a place to be written to.
    for (ValueId id : node.outputs) {
      if (id != kNone) needed_value[id] = true;
    }
  }
  std::vector<ValueId> renamed(graph.values.size(), kNone);
  std::vector<Value> values;
  for (size_t id = 0; id < graph.values.size(); ++id) {
    if (!needed_value[id]) continue;
    renamed[id] = static_cast<ValueId>(values.size());
    values.push_back(std::move(graph.values[id]));
  }
  graph.values = std::move(values);
  const auto rename = [&](std::vector<ValueId>& ids) {
    for (ValueId& id : ids) {
      if (id != kNone) id = renamed[id];
    }
  };
  rename(graph.inputs);
  rename(graph.outputs);
  for (Node& node : graph.nodes) {
    rename(node.inputs);
    rename(node.outputs);
  }
  return removed;
}

double flops(const Graph& graph) {
  double sum = 0;
  for (const Node& node : graph.nodes) {
    if (node.op->flops != nullptr) sum += node.op->flops(graph, node);
  }
  return sum;
}

}  // namespace stretto::ir
