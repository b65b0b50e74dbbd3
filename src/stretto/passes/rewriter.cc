#include "stretto/passes/rewriter.h"

#include <algorithm>
#include <climits>
#include <numeric>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/ir/operator.h"

namespace stretto::passes {

Rewriter::Rewriter(ir::Graph& graph) : graph_(graph) {
  grow();
  for (int n = 0; n < count(); ++n) {
    check_interrupt();
    alive_.push_back(true);
    order_.emplace_back(n, INT_MAX);
    link(n);
  }
  for (ValueId id : graph_.outputs) is_output_[id] = true;
}

void Rewriter::grow() {
  producer_.resize(graph_.values.size(), -1);
  users_.resize(graph_.values.size());
  is_output_.resize(graph_.values.size(), false);
}

void Rewriter::link(int n) {
  for (ValueId id : node(n).inputs) {
    if (id != kNone) users_[id].push_back(n);
  }
  for (ValueId id : node(n).outputs) {
    if (id != kNone) producer_[id] = n;
  }
}

void Rewriter::unlink(int n) {
  for (ValueId id : node(n).inputs) {
    if (id == kNone) continue;
    users_[id].erase(std::find(users_[id].begin(), users_[id].end(), n));
  }
}

void Rewriter::sweep(std::vector<ValueId> candidates) {
  while (!candidates.empty()) {
    const ValueId id = candidates.back();
    candidates.pop_back();
    if (id == kNone || producer_[id] < 0) continue;
    const int n = producer_[id];
    const auto idle = [&](ValueId out) {
      return out == kNone || (users_[out].empty() && !is_output_[out]);
    };
    if (!alive_[n] || !std::all_of(node(n).outputs.begin(), node(n).outputs.end(), idle)) continue;
    alive_[n] = false;
    unlink(n);
    candidates.insert(candidates.end(), node(n).inputs.begin(), node(n).inputs.end());
  }
}

void Rewriter::finish() {
  if (!changed_) return;
  std::vector<int> sequence(graph_.nodes.size());
  std::iota(sequence.begin(), sequence.end(), 0);
  std::sort(sequence.begin(), sequence.end(), [&](int a, int b) { return order_[a] < order_[b]; });
  std::vector<Node> nodes;
  nodes.reserve(graph_.nodes.size());
  for (int n : sequence) {
    if (alive_[n]) nodes.push_back(std::move(graph_.nodes[n]));
  }
  graph_.nodes = std::move(nodes);
  ir::sort(graph_);
  ir::remove_dead(graph_);
}

bool Rewriter::is(int n, std::string_view op) const { return alive(n) && node(n).op->name == op; }

int Rewriter::maker(ValueId id, std::string_view op) const {
  if (id == kNone || constant(id) != nullptr) return -1;
  const int n = producer(id);
  return n >= 0 && is(n, op) ? n : -1;
}

int Rewriter::only_user(ValueId id) const {
  if (is_output(id) || users(id).empty()) return -1;
  const int first = users(id).front();
  const auto same = [&](int user) { return user == first; };
  return std::all_of(users(id).begin(), users(id).end(), same) ? first : -1;
}

const Tensor* Rewriter::constant(ValueId id) const {
  return id != kNone && graph_.value(id).is_constant() ? &graph_.value(id).constant : nullptr;
}

ValueId Rewriter::add_constant(std::string_view name, Tensor tensor) {
  changed_ = true;
  const ValueId id = graph_.add_constant(name, std::move(tensor));
  grow();
  return id;
}

std::vector<ValueId> Rewriter::insert_many(int anchor, std::string_view op,
                                           std::vector<ValueId> inputs, Attributes attributes,
                                           const std::vector<std::pair<DType, Shape>>& outputs,
                                           std::string_view name) {
  const std::string text(name);
  changed_ = true;
  std::vector<ValueId> ids;
  for (const auto& [dtype, shape] : outputs) ids.push_back(graph_.add_value(text, dtype, shape));
  grow();
  graph_.add_node(op, std::move(inputs), ids, std::move(attributes));
  alive_.push_back(true);
  order_.emplace_back(order_[anchor].first, inserted_++);
  link(count() - 1);
  return ids;
}

ValueId Rewriter::insert(int anchor, std::string_view op, std::vector<ValueId> inputs,
                         Attributes attributes, DType dtype, Shape shape, std::string_view name) {
  return insert_many(anchor, op, std::move(inputs), std::move(attributes),
                     {{dtype, std::move(shape)}}, name)[0];
}

void Rewriter::become(int n, std::string_view op, std::vector<ValueId> inputs,
                      Attributes attributes, std::string_view name) {
  const ir::Operator* row = ir::find_operator(op);
  STRETTO_CHECK(row != nullptr, "no operator '{}'", op);
  changed_ = true;
  const std::string text(name);
  unlink(n);
  Node& changed = graph_.nodes[n];
  std::vector<ValueId> before = std::exchange(changed.inputs, std::move(inputs));
  changed.op = row;
  changed.attributes = std::move(attributes);
  if (!text.empty()) changed.name = text;
  link(n);
  sweep(std::move(before));
}

void Rewriter::set_attribute(int n, std::string name, ir::Attribute value) {
  changed_ = true;
  graph_.nodes[n].attributes.set(std::move(name), std::move(value));
}

void Rewriter::take_output(int n, ValueId id) {
  changed_ = true;
  const int old = producer_[id];
  graph_.nodes[n].outputs.push_back(id);
  producer_[id] = n;
  if (old < 0) return;
  auto& outputs = graph_.nodes[old].outputs;
  std::replace(outputs.begin(), outputs.end(), id, kNone);
  const auto gone = [](ValueId out) { return out == kNone; };
  if (!std::all_of(outputs.begin(), outputs.end(), gone)) return;
  alive_[old] = false;
  unlink(old);
  sweep(graph_.nodes[old].inputs);
}

bool Rewriter::can_replace(ValueId from, ValueId to) const {
  if (from == to || dtype(from) != dtype(to) || shape(from) != shape(to)) return false;
  const auto& inputs = graph_.inputs;
  return !is_output(from) ||
         (!is_output(to) && std::find(inputs.begin(), inputs.end(), to) == inputs.end());
}

void Rewriter::replace(ValueId from, ValueId to) {
  STRETTO_CHECK(can_replace(from, to), "{} cannot stand for {}", name(to), name(from));
  changed_ = true;
  for (int user : users_[from]) {
    auto& inputs = graph_.nodes[user].inputs;
    // `users` has one entry per use, so each turn moves one use.
    *std::find(inputs.begin(), inputs.end(), from) = to;
    users_[to].push_back(user);
  }
  users_[from].clear();
  if (is_output(from)) {
    std::replace(graph_.outputs.begin(), graph_.outputs.end(), from, to);
    std::swap(graph_.value(from).name, graph_.value(to).name);
    is_output_[to] = true;
    is_output_[from] = false;
  }
  sweep({from});
}

void Rewriter::settle(int n, std::vector<Tensor> outputs) {
  changed_ = true;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = node(n).outputs[i];
    if (id == kNone) continue;
    graph_.value(id).constant = std::move(outputs[i]);
    producer_[id] = -1;
  }
  alive_[n] = false;
  unlink(n);
  sweep(graph_.nodes[n].inputs);
}

}  // namespace stretto::passes
