#include "stretto/import/emitter.h"

#include <fmt/core.h>

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"

namespace stretto {

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
  graph_.nodes.push_back({.op = row,
                          .name = node_names_.unique(name, op),
                          .inputs = std::move(inputs),
                          .outputs = std::move(outputs),
                          .attributes = std::move(attributes)});
  ir::infer_node(graph_, graph_.nodes.back());
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
