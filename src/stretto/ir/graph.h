// The graph every model becomes: values and nodes in plain vectors, referred to by index.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stretto/tensor/tensor.h"

namespace stretto::ir {

struct Operator;

using ValueId = int32_t;
constexpr ValueId kNone = -1;  // an optional input or output that is absent

using Attribute = std::variant<int64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>, Tensor>;

// Attributes by name, ordered. Getters throw InvalidArgument when the type differs.
class Attributes {
 public:
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const Attribute* find(std::string_view name) const;
  void set(std::string name, Attribute value);
  void erase(std::string_view name);

  int64_t integer(std::string_view name, int64_t fallback) const;
  double number(std::string_view name, double fallback) const;  // accepts integers
  std::string text(std::string_view name, std::string_view fallback) const;
  std::vector<int64_t> integers(std::string_view name, std::vector<int64_t> fallback) const;
  std::vector<double> numbers(std::string_view name, std::vector<double> fallback) const;
  const Tensor* tensor(std::string_view name) const;  // null when absent

  const std::map<std::string, Attribute, std::less<>>& all() const { return entries_; }

 private:
  std::map<std::string, Attribute, std::less<>> entries_;
};

struct Value {
  std::string name;                 // unique in the graph, never empty
  DType dtype = DType::kUndefined;  // kUndefined until inferred
  std::optional<Shape> shape;       // absent until inferred; -1 marks a dimension not yet bound
  Tensor constant;                  // defined for constants (initialisers, folded results)

  bool is_constant() const { return constant.defined(); }
};

struct Node {
  const Operator* op = nullptr;  // a row of the operator table
  std::string name;              // for people; unique, never empty
  std::vector<ValueId> inputs, outputs;
  Attributes attributes;
};

// A model. Nodes are in topological order; every value is a graph input, a constant, or the output
// of exactly one node. infer() may learn the value of a node output; it is then a constant as well,
// and the folding pass removes the node. Values that nothing uses may stay until remove_dead().
struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs, outputs;

  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }

  // Adds a value; the name is made unique by a numeric suffix. May invalidate Value references.
  ValueId add_value(std::string_view name, DType dtype = DType::kUndefined,
                    std::optional<Shape> shape = std::nullopt);
  ValueId add_constant(std::string_view name, Tensor tensor);
  // Adds a node at the end; call sort() afterwards unless its place there is right.
  Node& add_node(std::string_view op, std::vector<ValueId> inputs, std::vector<ValueId> outputs,
                 Attributes attributes = {}, std::string_view name = {});
};

// Who makes and who uses each value, by value id. Invalid after any change of nodes.
struct Links {
  explicit Links(const Graph& graph);
  std::vector<int> producer;            // node index; -1 for inputs and constants
  std::vector<std::vector<int>> users;  // node indices, once per use, ascending
  std::vector<bool> is_output;
  // The one node that uses `id`, or -1 when there are none, several, or it is a graph output.
  int only_user(ValueId id) const;
};

// Lets every use of `from` (graph outputs included) use `to` instead. Graph outputs keep their
// name: `to` takes over the name of `from` when `from` was an output and `to` is not one itself.
void replace_uses(Graph& graph, ValueId from, ValueId to);

// Stable topological order. Throws InvalidArgument naming the nodes of a cycle.
void sort(Graph& graph);

// Removes nodes none of whose outputs reach a graph output, optional outputs that nothing reads,
// then unused values; renumbers values. Graph inputs stay. Returns the number of nodes removed.
int remove_dead(Graph& graph);

// Runs shape and type inference over all nodes in order, constants known at compile time included
// (their values flow through shape arithmetic). Throws InvalidArgument naming the node.
void infer(Graph& graph);
// The same for one node of it, all of whose inputs are known: for whoever builds a graph in order.
void infer_node(Graph& graph, const Node& node);

// Checks every promise above plus the operator schemas; throws InternalError naming node and value.
void verify(const Graph& graph);

// Multiply-adds x 2 of all nodes, by the operators' own counts; 0 for data movement.
double flops(const Graph& graph);

}  // namespace stretto::ir
