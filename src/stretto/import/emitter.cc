#include "stretto/import/emitter.h"

#include <fmt/core.h>

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"

namespace stretto {
namespace {

const ir::Port* port_at(std::span<const ir::Port> ports, size_t i) {
  if (i < ports.size()) return &ports[i];
  const bool variadic = !ports.empty() && ports.back().arity == ir::Arity::kVariadic;
  return variadic ? &ports.back() : nullptr;
}

}  // namespace

std::string Emitter::Names::unique(std::string_view wanted, std::string_view fallback) {
  std::string name(wanted.empty() ? fallback : wanted);
  auto [at, fresh] = taken.try_emplace(name, 0);
  while (!fresh) {
    std::string candidate = fmt::format("{}_{}", name, ++at->second);
    if (taken.count(candidate) > 0) continue;
    taken.emplace(candidate, 0);
    return candidate;
  }
  return name;
}

ir::ValueId Emitter::add_value(std::string_view name) {
  graph_.values.push_back({.name = value_names_.unique(name, "value")});
  return static_cast<ir::ValueId>(graph_.values.size() - 1);
}

ir::ValueId Emitter::add_constant(std::string_view name, Tensor tensor) {
  const ir::ValueId id = add_value(name);
  ir::Value& value = graph_.value(id);
  value.dtype = tensor.dtype();
  value.shape = tensor.shape();
  value.constant = std::move(tensor);
  return id;
}

void Emitter::add_node(std::string_view op, std::vector<ir::ValueId> inputs,
                       std::vector<ir::ValueId> outputs, ir::Attributes attributes,
                       std::string_view name) {
  const ir::Operator* row = ir::find_operator(op);
  STRETTO_CHECK(row != nullptr, "no operator '{}'", op);
  if (name.empty() && !outputs.empty() && outputs[0] != ir::kNone) name = value(outputs[0]).name;
  const std::string label(name);
  const Widened widened = widen_halves(*row, inputs, label);
  // Whether an output of this type is that of inputs that were widened. Where no input that is
  // there has the type, it is that of the others.
  const auto was_half = [&](char variable) {
    if (variable == '\0') return false;
    if (widened.variables.find(variable) != std::string::npos) return true;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ir::Port* port = port_at(row->inputs, i);
      if (inputs[i] != ir::kNone && port != nullptr && port->type_variable == variable)
        return false;
    }
    return true;
  };
  std::vector<std::pair<ir::ValueId, ir::ValueId>> narrowings;  // from, to
  for (size_t i = 0; i < outputs.size() && widened.dtype != DType::kUndefined; ++i) {
    const ir::Port* port = port_at(row->outputs, i);
    if (port == nullptr || !was_half(port->type_variable) || outputs[i] == ir::kNone) continue;
    const ir::ValueId wide = add_value(value(outputs[i]).name + "/float32");
    narrowings.emplace_back(wide, outputs[i]);
    outputs[i] = wide;
  }
  add_described_node(*row, std::move(inputs), std::move(outputs), std::move(attributes), label);
  ir::infer_node(graph_, graph_.nodes.back());
  for (const auto& [wide, narrow] : narrowings) {
    add_cast(wide, narrow,
             value(wide).dtype == DType::kFloat32 ? widened.dtype : value(wide).dtype);
  }
}

void Emitter::add_described_node(const ir::Operator& op, std::vector<ir::ValueId> inputs,
                                 std::vector<ir::ValueId> outputs, ir::Attributes attributes,
                                 std::string_view name) {
  if (op.random && !attributes.has("node")) {
    attributes.set("node", static_cast<int64_t>(graph_.nodes.size()));
  }
  graph_.nodes.push_back({.op = &op,
                          .name = node_names_.unique(name, op.name),
                          .inputs = std::move(inputs),
                          .outputs = std::move(outputs),
                          .attributes = std::move(attributes)});
}

void Emitter::add_cast(ir::ValueId from, ir::ValueId to, DType dtype) {
  ir::Attributes attributes;
  attributes.set("to", std::string(dtype_name(dtype)));
  add_node("Cast", {from}, {to}, std::move(attributes), value(to).name + "/Cast");
}

// The operator's own kernels and references compute in float32 and above.
Emitter::Widened Emitter::widen_halves(const ir::Operator& op, std::vector<ir::ValueId>& inputs,
                                       const std::string& label) {
  Widened widened;
  const auto is_half = [&](ir::ValueId id) {
    return id != ir::kNone &&
           (value(id).dtype == DType::kFloat16 || value(id).dtype == DType::kBFloat16);
  };
  const auto refuses = [&](const ir::Port* port, ir::ValueId id) {
    return port != nullptr && (port->types & ir::type_bit(value(id).dtype)) == 0 &&
           (port->types & ir::type_bit(DType::kFloat32)) != 0;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Port* port = port_at(op.inputs, i);
    if (!is_half(inputs[i]) || !refuses(port, inputs[i])) continue;
    if (port->type_variable != '\0') {
      widened.variables += port->type_variable;
      widened.dtype = value(inputs[i]).dtype;
    }
    const ir::ValueId wide = add_value(label + "/" + std::string(port->name));
    add_cast(inputs[i], wide, DType::kFloat32);
    inputs[i] = wide;
  }
  return widened;
}

bool Emitter::rename(ir::ValueId id, std::string_view name) {
  std::string& current = graph_.value(id).name;
  if (current == name) return true;
  if (!value_names_.taken.try_emplace(std::string(name), 0).second) return false;
  value_names_.taken.erase(current);
  current = name;
  return true;
}

}  // namespace stretto
