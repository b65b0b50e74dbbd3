// Edits a graph while keeping who-makes-and-uses-what current, so that a pass stays linear.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/ir/graph.h"

namespace stretto::passes {

using ir::Attributes;
using ir::kNone;
using ir::Node;
using ir::ValueId;

// Nodes keep their index while the rewriter lives; removed ones are skipped with alive(). A node
// that loses its last user is removed at once, so use counts are always those of the finished
// graph. Values added must come with type and shape. References to nodes die with insert().
class Rewriter {
 public:
  explicit Rewriter(ir::Graph& graph);
  // Erases removed nodes and unused values, sorts, if anything was changed. Ids and indices are
  // invalid afterwards.
  void finish();

  const ir::Graph& graph() const { return graph_; }
  int count() const { return static_cast<int>(graph_.nodes.size()); }
  bool alive(int n) const { return alive_[static_cast<size_t>(n)]; }
  const Node& node(int n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  bool is(int n, std::string_view op) const;  // alive and of that operator
  // Where node n stands in execution order; inserted nodes stand before their anchor.
  std::pair<int, int> position(int n) const { return order_[static_cast<size_t>(n)]; }

  int producer(ValueId id) const { return producer_[static_cast<size_t>(id)]; }  // -1: none
  // The node that makes `id` when it is an `op` and the value is not known already, else -1.
  int maker(ValueId id, std::string_view op) const;
  const std::vector<int>& users(ValueId id) const { return users_[static_cast<size_t>(id)]; }
  bool is_output(ValueId id) const { return is_output_[static_cast<size_t>(id)]; }
  bool used_once(ValueId id) const { return !is_output(id) && users(id).size() == 1; }
  // The one node that uses `id` (perhaps several times); -1 when several do, none, or it is an
  // output.
  int only_user(ValueId id) const;

  DType dtype(ValueId id) const { return present(id).dtype; }
  const Shape& shape(ValueId id) const { return *present(id).shape; }
  const Tensor* constant(ValueId id) const;  // null for absent values and values not known
  const std::string& name(ValueId id) const { return graph_.value(id).name; }

  ValueId add_constant(std::string_view name, Tensor tensor);
  // A new node with one output, executed just before node `anchor`. Returns the output.
  ValueId insert(int anchor, std::string_view op, std::vector<ValueId> inputs,
                 Attributes attributes, DType dtype, Shape shape, std::string_view name);
  // The same with outputs of the caller's: (type, shape) each. Returns the outputs.
  std::vector<ValueId> insert_many(int anchor, std::string_view op, std::vector<ValueId> inputs,
                                   Attributes attributes,
                                   const std::vector<std::pair<DType, Shape>>& outputs,
                                   std::string_view name);
  // Node n turns into another operation that makes the same outputs. An empty name keeps its own.
  void become(int n, std::string_view op, std::vector<ValueId> inputs, Attributes attributes,
              std::string_view name = {});
  void set_attribute(int n, std::string name, ir::Attribute value);
  // Node n also makes `id` (as its next output); whoever made it no longer does.
  void take_output(int n, ValueId id);
  // Whether `to` can stand for `from` everywhere: same type and shape, no graph output loses its
  // name.
  bool can_replace(ValueId from, ValueId to) const;
  // All uses of `from`, graph outputs included, use `to`; can_replace() must hold.
  void replace(ValueId from, ValueId to);
  // Node n goes; its outputs have become constants.
  void settle(int n, std::vector<Tensor> outputs);

 private:
  const ir::Value& present(ValueId id) const {
    STRETTO_CHECK(id != kNone, "an absent value has neither type nor shape");
    return graph_.value(id);
  }
  void link(int n);
  void unlink(int n);
  void sweep(std::vector<ValueId> candidates);
  void grow();

  ir::Graph& graph_;
  std::vector<bool> alive_, is_output_;
  std::vector<int> producer_;
  std::vector<std::vector<int>> users_;
  std::vector<std::pair<int, int>> order_;
  int inserted_ = 0;
  bool changed_ = false;
};

}  // namespace stretto::passes
