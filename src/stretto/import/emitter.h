// Builds the graph value by value and node by node. Each node is inferred as it comes, so whoever
// emits the next one can look at shapes and at what is already known. Names go through an index:
// building is linear in the size of the model.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stretto/ir/graph.h"
#include "stretto/ir/operator.h"

namespace stretto {

class Emitter {
 public:
  explicit Emitter(ir::Graph& graph) : graph_(graph) {}

  ir::Graph& graph() { return graph_; }
  const ir::Value& value(ir::ValueId id) const { return graph_.value(id); }

  // Names are made unique by a numeric suffix.
  ir::ValueId add_value(std::string_view name);
  ir::ValueId add_constant(std::string_view name, Tensor tensor);
  // Inputs of 16-bit floats are cast to float32 where the operator does not take them, and its
  // outputs back. Throws InvalidArgument or Unsupported beginning with the node.
  void add_node(std::string_view op, std::vector<ir::ValueId> inputs,
                std::vector<ir::ValueId> outputs, ir::Attributes attributes, std::string_view name);
  // The same of a node whose outputs have types and shapes already: nothing is inferred.
  void add_described_node(const ir::Operator& op, std::vector<ir::ValueId> inputs,
                          std::vector<ir::ValueId> outputs, ir::Attributes attributes,
                          std::string_view name);
  // False when another value has that name.
  bool rename(ir::ValueId id, std::string_view name);

 private:
  struct Widened {
    DType dtype = DType::kUndefined;  // the 16-bit type; undefined when there was none
    std::string variables;            // type variables of the ports that were widened
  };
  Widened widen_halves(const ir::Operator& op, std::vector<ir::ValueId>& inputs,
                       const std::string& label);
  void add_cast(ir::ValueId from, ir::ValueId to, DType dtype);

  struct Names {
    std::unordered_map<std::string, int> taken;  // and the last suffix tried
    std::string unique(std::string_view wanted, std::string_view fallback);
  };
  ir::Graph& graph_;
  Names value_names_, node_names_;
};

}  // namespace stretto
