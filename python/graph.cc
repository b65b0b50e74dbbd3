#include "graph.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "attributes.h"
#include "python_signals.h"
#include "stretto/base/file.h"
#include "stretto/base/interrupt.h"
#include "stretto/export/onnx/export.h"
#include "stretto/import/onnx/import.h"
#include "stretto/ir/operator.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {
namespace {

ir::Attributes attributes_of(const ir::Operator& op, const std::string& node,
                             const nb::dict& given) {
  ir::Attributes attributes;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    const auto spec = std::find_if(op.attributes.begin(), op.attributes.end(),
                                   [&](const ir::AttributeSpec& a) { return a.name == name; });
    if (spec == op.attributes.end()) {
      throw_invalid("{} \"{}\": has no attribute {}", op.name, node, name);
    }
    try {
      attributes.set(name, attribute_value(spec->kind, value));
    } catch (const nb::cast_error&) {
      throw_invalid("{} \"{}\": attribute {} has the wrong type", op.name, node, name);
    }
  }
  return attributes;
}

// Opset and files.
std::pair<int64_t, std::vector<std::string>> written(const ImportedModel& model,
                                                     const std::string& path,
                                                     const onnx::ExportOptions& options) {
  nb::gil_scoped_release released;
  const InterruptScope interrupt(check_signals);
  onnx::ExportSummary summary = onnx::write_onnx(model.graph, path, options);
  return {summary.opset, std::move(summary.files)};
}

}  // namespace

GraphBuilder::GraphBuilder(std::string name, std::string format, std::string producer)
    : model_{.format = std::move(format), .source = name}, emitter_(model_.graph) {
  model_.graph.name = std::move(name);
  model_.producer = std::move(producer);
  model_.borrows = true;
}

void GraphBuilder::check_open() const {
  if (finished_) throw_invalid("{}: the graph is finished", model_.source);
}

const ir::Value& GraphBuilder::value(ir::ValueId id) const {
  const auto& values = model_.graph.values;
  if (id < 0 || static_cast<size_t>(id) >= values.size()) {
    throw_invalid("{}: there is no value {}", model_.source, id);
  }
  return values[static_cast<size_t>(id)];
}

ir::ValueId GraphBuilder::input(const std::string& name, const std::string& dtype,
                                const Shape& shape) {
  check_open();
  const DType type = parse_dtype(dtype);
  for (int64_t size : shape) {
    if (size < 0) throw_invalid("input {}: expected a shape of sizes from 0, got {}", name, size);
  }
  element_count(shape);
  const ir::ValueId id = emitter_.add_value(name);
  ir::Value& value = model_.graph.value(id);
  value.dtype = type;
  value.shape = shape;
  model_.graph.inputs.push_back(id);
  return id;
}

ir::ValueId GraphBuilder::constant(const Array& array, const std::string& name) {
  check_open();
  return emitter_.add_constant(name, tensor_view(array));
}

const ir::Operator& GraphBuilder::operator_named(const std::string& op,
                                                 const std::string& node) const {
  check_open();
  const ir::Operator* row = ir::find_operator(op);
  if (row == nullptr) throw_invalid("{} \"{}\": Stretto has no such operator", op, node);
  return *row;
}

std::vector<ir::ValueId> GraphBuilder::checked(
    const std::vector<std::optional<ir::ValueId>>& inputs) const {
  std::vector<ir::ValueId> ids;
  for (const std::optional<ir::ValueId>& id : inputs) {
    if (id) value(*id);
    ids.push_back(id.value_or(ir::kNone));
  }
  while (!ids.empty() && ids.back() == ir::kNone) ids.pop_back();
  return ids;
}

std::vector<ir::ValueId> GraphBuilder::node(const std::string& op,
                                            const std::vector<std::optional<ir::ValueId>>& inputs,
                                            const nb::dict& attributes, int outputs,
                                            const std::string& name) {
  const ir::Operator& row = operator_named(op, name);
  std::vector<ir::ValueId> from = checked(inputs), to;
  ir::Attributes given = attributes_of(row, name, attributes);
  ir::Graph& graph = model_.graph;
  const size_t values = graph.values.size(), nodes = graph.nodes.size();
  try {
    for (int i = 0; i < outputs; ++i) to.push_back(emitter_.add_value(name.empty() ? op : name));
    emitter_.add_node(op, std::move(from), to, std::move(given), name);
  } catch (...) {
    graph.values.resize(values);
    graph.nodes.resize(nodes);
    throw;
  }
  return to;
}

std::vector<ir::ValueId> GraphBuilder::assumed_node(
    const std::string& op, const std::vector<std::optional<ir::ValueId>>& inputs,
    const nb::dict& attributes, const std::vector<std::pair<std::string, Shape>>& outputs,
    const std::string& name) {
  const ir::Operator& row = operator_named(op, name);
  std::vector<ir::ValueId> from = checked(inputs), to;
  ir::Attributes given = attributes_of(row, name, attributes);
  for (const auto& [dtype, shape] : outputs) {
    to.push_back(emitter_.add_value(name));
    ir::Value& made = model_.graph.value(to.back());
    made.dtype = parse_dtype(dtype);
    made.shape = shape;
  }
  emitter_.add_described_node(row, std::move(from), to, std::move(given), name);
  return to;
}

std::pair<std::string, Shape> GraphBuilder::spec(ir::ValueId id) const {
  const ir::Value& v = value(id);
  return {std::string(dtype_name(v.dtype)), v.shape.value_or(Shape{})};
}

nb::object GraphBuilder::known(ir::ValueId id) const {
  const ir::Value& v = value(id);
  if (!v.is_constant()) return nb::none();
  return numpy_array(v.constant);
}

void GraphBuilder::note(const std::string& text) { model_.notes.push_back(text); }

void GraphBuilder::finish(const std::vector<std::pair<ir::ValueId, std::string>>& outputs) {
  check_open();
  ir::Graph& graph = model_.graph;
  std::vector<bool> taken(graph.values.size());
  for (ir::ValueId id : graph.inputs) taken[static_cast<size_t>(id)] = true;
  for (const auto& [id, name] : outputs) {
    const bool constant = value(id).is_constant();
    ir::ValueId output = id;
    // An input, a constant or another output keeps its name.
    if (taken[static_cast<size_t>(id)] || constant || !emitter_.rename(id, name)) {
      output = emitter_.add_value(name);
      emitter_.add_node("Identity", {id}, {output}, {}, name);
    } else {
      taken[static_cast<size_t>(id)] = true;
    }
    graph.outputs.push_back(output);
  }
  ir::remove_dead(graph);
  ir::verify(graph);
  finished_ = true;
}

ImportedModel GraphBuilder::take() {
  if (!finished_ || taken_) throw_invalid("{}: finish the graph, and use it once", model_.source);
  taken_ = true;
  return std::move(model_);
}

void bind_graph(nb::module_& m) {
  nb::class_<GraphBuilder>(m, "GraphBuilder")
      .def(nb::init<std::string, std::string, std::string>(), "name"_a, "format"_a, "producer"_a)
      .def("input", &GraphBuilder::input, "name"_a, "dtype"_a, "shape"_a)
      .def("constant", &GraphBuilder::constant, "array"_a, "name"_a)
      .def("node", &GraphBuilder::node, "op"_a, "inputs"_a, "attributes"_a = nb::dict(),
           "outputs"_a = 1, "name"_a = "")
      .def("assumed_node", &GraphBuilder::assumed_node, "op"_a, "inputs"_a, "attributes"_a,
           "outputs"_a, "name"_a)
      .def("spec", &GraphBuilder::spec, "id"_a)
      .def("known", &GraphBuilder::known, "id"_a)
      .def("note", &GraphBuilder::note, "text"_a)
      .def("finish", &GraphBuilder::finish, "outputs"_a)
      .def(
          "write_onnx",
          [](GraphBuilder& graph, const std::string& path, int64_t most_inline_bytes,
             const std::map<std::string, std::string>& inputs,
             const std::vector<std::string>& outputs) {
            const ImportedModel model = graph.take();
            onnx::ExportOptions options{.most_inline_bytes = most_inline_bytes};
            for (const auto& [name, shape] : inputs) options.open[name] = parse_shape_range(shape);
            for (size_t i = 0; i < std::min(outputs.size(), model.graph.outputs.size()); ++i) {
              options.open[model.graph.value(model.graph.outputs[i]).name] =
                  parse_shape_range(outputs[i]);
            }
            return written(model, path, options);
          },
          "path"_a, "most_inline_bytes"_a = onnx::ExportOptions().most_inline_bytes,
          "inputs"_a = std::map<std::string, std::string>(),
          "outputs"_a = std::vector<std::string>());
  m.def(
      "convert_onnx",
      [](const std::optional<std::string>& path, const std::optional<nb::bytes>& content,
         const std::map<std::string, Shape>& shapes, const std::string& to,
         int64_t most_inline_bytes) {
        const onnx::ImportOptions options{.shapes = shapes};
        const auto bytes = [&] {
          return std::span(static_cast<const std::byte*>(content->data()), content->size());
        };
        if (path && same_file(*path, to)) {
          throw_invalid("path: {} is the file that is read; name another one", to);
        }
        return written(path ? onnx::import_onnx_file(*path, options)
                            : onnx::import_onnx_bytes(bytes(), "model", "", options),
                       to, {.most_inline_bytes = most_inline_bytes});
      },
      "path"_a.none(), "content"_a.none(), "shapes"_a, "to"_a,
      "most_inline_bytes"_a = onnx::ExportOptions().most_inline_bytes);
}

}  // namespace stretto::python
