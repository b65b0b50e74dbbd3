#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"

namespace stretto::ir {
namespace {

std::string label(const Node& node) { return fmt::format("{} \"{}\"", node.op->name, node.name); }

const Port* port_at(std::span<const Port> ports, size_t i) {
  if (i < ports.size()) return &ports[i];
  if (!ports.empty() && ports.back().arity == Arity::kVariadic) return &ports.back();
  return nullptr;
}

bool kind_matches(AttributeKind kind, const Attribute& value) {
  switch (kind) {
    case AttributeKind::kInt:
      return std::holds_alternative<int64_t>(value);
    case AttributeKind::kFloat:
      return std::holds_alternative<double>(value) || std::holds_alternative<int64_t>(value);
    case AttributeKind::kString:
      return std::holds_alternative<std::string>(value);
    case AttributeKind::kInts:
      return std::holds_alternative<std::vector<int64_t>>(value);
    case AttributeKind::kFloats:
      return std::holds_alternative<std::vector<double>>(value);
    case AttributeKind::kStrings:
      return std::holds_alternative<std::vector<std::string>>(value);
    case AttributeKind::kTensor:
      return std::holds_alternative<Tensor>(value);
  }
  return false;
}

std::string type_names(TypeSet set) {
  std::string names;
  for (int i = 1; i <= static_cast<int>(DType::kUInt2); ++i) {
    if ((set & (1u << i)) == 0) continue;
    names += names.empty() ? "" : ", ";
    names += dtype_name(static_cast<DType>(i));
  }
  return names;
}

void check_ports(const Graph& graph, const Node& node, std::span<const Port> ports,
                 const std::vector<ValueId>& ids, const char* side, bool check_types,
                 std::map<char, DType>& variables) {
  for (size_t i = 0; i < std::max(ids.size(), ports.size()); ++i) {
    const Port* port = port_at(ports, i);
    if (port == nullptr) {
      throw_invalid("{}: at most {} {}s, got {}", label(node), ports.size(), side, ids.size());
    }
    const bool present = i < ids.size() && ids[i] != kNone;
    if (!present) {
      if (port->arity == Arity::kRequired) {
        throw_invalid("{}: {} {} ({}) is missing", label(node), side, i, port->name);
      }
      continue;
    }
    const DType dtype = graph.value(ids[i]).dtype;
    if (!check_types || dtype == DType::kUndefined) continue;
    if ((port->types & type_bit(dtype)) == 0) {
      throw_unsupported("{}: {} {} may be {}, got {}; cast it", label(node), side, port->name,
                        type_names(port->types), dtype_name(dtype));
    }
    if (port->type_variable == '\0') continue;
    const auto [at, fresh] = variables.try_emplace(port->type_variable, dtype);
    if (!fresh && at->second != dtype) {
      throw_invalid("{}: {} {} must have the same type as the others, {}, got {}", label(node),
                    side, port->name, dtype_name(at->second), dtype_name(dtype));
    }
  }
}

}  // namespace

const Operator* find_operator(std::string_view name) {
  static const auto index = [] {
    std::map<std::string_view, const Operator*> map;
    for (const Operator* op : operators()) map.emplace(op->name, op);
    return map;
  }();
  const auto at = index.find(name);
  return at == index.end() ? nullptr : at->second;
}

void check_schema(const Graph& graph, const Node& node) {
  std::map<char, DType> variables;
  check_ports(graph, node, node.op->inputs, node.inputs, "input", true, variables);
  check_ports(graph, node, node.op->outputs, node.outputs, "output", false, variables);
  for (const auto& [name, value] : node.attributes.all()) {
    const auto spec = std::find_if(node.op->attributes.begin(), node.op->attributes.end(),
                                   [&key = name](const AttributeSpec& a) { return a.name == key; });
    if (spec == node.op->attributes.end()) {
      throw_invalid("{}: unknown attribute {}", label(node), name);
    }
    if (!kind_matches(spec->kind, value)) {
      throw_invalid("{}: attribute {} has the wrong kind", label(node), name);
    }
  }
  for (const AttributeSpec& spec : node.op->attributes) {
    if (spec.required && !node.attributes.has(spec.name)) {
      throw_invalid("{}: attribute {} is missing", label(node), spec.name);
    }
  }
}

}  // namespace stretto::ir
