// Graphs made node by node from Python: what a framework's module becomes.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "stretto/import/emitter.h"
#include "stretto/import/model.h"
#include "tensors.h"

namespace stretto::python {

// Every node is inferred as it is added, so whoever adds the next one may ask for types and shapes.
// After an error of node() the builder is as it was before. finish() ends it.
class GraphBuilder {
 public:
  // `format` and `producer` are for the report; `name` is the model's, also in messages.
  GraphBuilder(std::string name, std::string format, std::string producer);
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  ir::ValueId input(const std::string& name, const std::string& dtype, const Shape& shape);
  // A view of the array, which is kept alive. Nobody may change it until the model is optimised.
  ir::ValueId constant(const Array& array, const std::string& name);
  // Absent inputs are None, and so are outputs that nobody wants.
  std::vector<ir::ValueId> node(const std::string& op,
                                const std::vector<std::optional<ir::ValueId>>& inputs,
                                const nanobind::dict& attributes, int outputs,
                                const std::string& name);
  // A node whose sizes only a run tells, with sizes that are assumed until then. Such a graph is
  // for write_onnx() and optimize_open_graph() only.
  std::vector<ir::ValueId> assumed_node(const std::string& op,
                                        const std::vector<std::optional<ir::ValueId>>& inputs,
                                        const nanobind::dict& attributes,
                                        const std::vector<std::pair<std::string, Shape>>& outputs,
                                        const std::string& name);
  std::pair<std::string, Shape> spec(ir::ValueId id) const;
  // The value's array where it is known already; None otherwise.
  nanobind::object known(ir::ValueId id) const;
  void note(const std::string& text);
  // The graph's outputs, with their names. Drops nodes and constants that they do not need.
  void finish(const std::vector<std::pair<ir::ValueId, std::string>>& outputs);

  // The finished model; once.
  ImportedModel take();

 private:
  const ir::Value& value(ir::ValueId id) const;
  void check_open() const;
  const ir::Operator& operator_named(const std::string& op, const std::string& node) const;
  std::vector<ir::ValueId> checked(const std::vector<std::optional<ir::ValueId>>& inputs) const;

  ImportedModel model_;
  Emitter emitter_;
  bool finished_ = false, taken_ = false;
};

void bind_graph(nanobind::module_& m);

}  // namespace stretto::python
