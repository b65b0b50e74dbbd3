// From the form an operator had in some opset to its newest form, which is the only one that the
// graph knows.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "stretto/import/emitter.h"
#include "stretto/import/onnx/wire.h"

namespace stretto::onnx {

// A node on its way into the graph. Upgrades change it in place and may emit nodes and constants
// that come before it.
struct PendingNode {
  Emitter& emitter;
  const Source& source;
  int64_t opset = 0;  // that the node was written for
  std::string op, name;
  std::vector<ir::ValueId> inputs;
  size_t output_count = 0;
  ir::Attributes attributes;
  // Outputs that will not be made, with the reason for whoever uses them.
  std::map<size_t, std::string> dropped_outputs;
  // Set by a composition (compose.h): the values that are the node's outputs.
  std::vector<ir::ValueId> results;
  // Puts the nodes of a graph that is an attribute here, fed with `inputs`; returns its outputs.
  std::function<std::vector<ir::ValueId>(std::string_view attribute,
                                         const std::vector<ir::ValueId>& inputs)>
      inline_graph;
  std::set<std::string_view> graphs;  // the attributes that are graphs

  bool has_input(size_t i) const { return i < inputs.size() && inputs[i] != ir::kNone; }
  const Shape* shape(size_t i) const;      // null when absent or unknown
  const Tensor* constant(size_t i) const;  // null when absent or not known
  DType dtype(size_t i) const;             // kUndefined when absent
  void set_input(size_t i, ir::ValueId id);
  ir::ValueId add_constant(std::string_view what, Tensor tensor);
  // A node before this one; its only output.
  ir::ValueId emit(std::string_view op, std::vector<ir::ValueId> inputs,
                   ir::Attributes attributes = {});
  [[noreturn]] void unsupported(std::string_view why) const;
  // Because of values that are known only when the model runs.
  [[noreturn]] void not_straight(std::string_view why) const;
};

struct UpgradeRow {
  std::string_view op;
  int64_t until_opset;  // nodes of older opsets are upgraded; kAlways: all of them
  void (*apply)(PendingNode&);
  std::string_view becomes = {};  // the operator it turns into, when that is another
};

constexpr int64_t kAlways = INT64_MAX;

// In the order in which they apply.
std::span<const UpgradeRow> upgrade_rows();

// The operator that `op` of the default domain ends up as: itself unless a row renames it.
std::string_view upgraded_name(std::string_view op, int64_t opset);

// Applies the rows that fit, then takes away the attributes that mean nothing when a model is only
// run and the outputs that only training needs.
void upgrade(PendingNode& node);

}  // namespace stretto::onnx
