#include "stretto/import/onnx/attributes.h"

#include <vector>

namespace stretto::onnx {
namespace {

// Null when it refers to something that the caller left out.
const WireAttribute* resolve(const WireAttribute& attribute, const AttributeScope* scope) {
  if (attribute.reference.empty()) return &attribute;
  if (scope == nullptr) return nullptr;
  const auto at = scope->find(attribute.reference);
  return at == scope->end() ? nullptr : &at->second;
}

struct Values {
  int64_t integer = 0;
  double real = 0;
  std::string text;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> texts;
  std::string_view tensor, sparse_tensor, graph;
};

Values read_values(const Source& source, std::string_view message) {
  Values values;
  Fields fields(source, message, "attribute");
  while (fields.next()) {
    switch (fields.tag()) {
      case attribute_field::kInt:
        values.integer = fields.integer();
        break;
      case attribute_field::kFloat:
        values.real = fields.real();
        break;
      case attribute_field::kString:
        values.text = fields.text_value();
        break;
      case attribute_field::kInts:
        fields.integers(values.integers);
        break;
      case attribute_field::kFloats:
        fields.reals(values.reals);
        break;
      case attribute_field::kStrings:
        values.texts.emplace_back(fields.text_value());
        break;
      case attribute_field::kTensor:
        values.tensor = fields.bytes();
        break;
      case attribute_field::kSparseTensor:
        values.sparse_tensor = fields.bytes();
        break;
      case attribute_field::kGraph:
        values.graph = fields.bytes();
        break;
      default:
        fields.skip();
    }
  }
  return values;
}

}  // namespace

NodeAttributes read_attributes(const Source& source, const WireNode& node,
                               const AttributeScope* scope, TensorReader& tensors) {
  NodeAttributes attributes;
  for (std::string_view message : node.attributes) {
    const WireAttribute named = read_attribute(source, message);
    const WireAttribute* attribute = resolve(named, scope);
    if (attribute == nullptr) continue;
    if (attributes.plain.has(named.name) || attributes.graphs.count(named.name) > 0) {
      source.fail(message.data(), "{} \"{}\": attribute {} stands twice", node.op, node.name,
                  named.name);
    }
    Values values = read_values(source, attribute->body);
    std::string name(named.name);
    switch (attribute->type) {
      case AttributeType::kInt:
        attributes.plain.set(std::move(name), values.integer);
        break;
      case AttributeType::kFloat:
        attributes.plain.set(std::move(name), values.real);
        break;
      case AttributeType::kString:
        attributes.plain.set(std::move(name), std::move(values.text));
        break;
      case AttributeType::kInts:
        attributes.plain.set(std::move(name), std::move(values.integers));
        break;
      case AttributeType::kFloats:
        attributes.plain.set(std::move(name), std::move(values.reals));
        break;
      case AttributeType::kStrings:
        attributes.plain.set(std::move(name), std::move(values.texts));
        break;
      case AttributeType::kTensor:
        if (values.tensor.data() == nullptr) {
          source.fail(message.data(), "{} \"{}\": attribute {} has no tensor", node.op, node.name,
                      named.name);
        }
        attributes.plain.set(std::move(name), tensors.read(values.tensor));
        break;
      case AttributeType::kSparseTensor:
        if (values.sparse_tensor.data() == nullptr) {
          source.fail(message.data(), "{} \"{}\": attribute {} has no tensor", node.op, node.name,
                      named.name);
        }
        attributes.plain.set(std::move(name), tensors.read_sparse(values.sparse_tensor));
        break;
      case AttributeType::kGraph:
        if (values.graph.data() == nullptr) {
          source.fail(message.data(), "{} \"{}\": attribute {} has no graph", node.op, node.name,
                      named.name);
        }
        attributes.graphs.emplace(named.name, values.graph);
        break;
      case AttributeType::kTensors:
      case AttributeType::kGraphs:
      case AttributeType::kSparseTensors:
      case AttributeType::kTypeProto:
      case AttributeType::kTypeProtos:
        throw_unsupported("{}: {} \"{}\": attribute {} holds {}, which is not supported",
                          source.name, node.op, node.name, named.name,
                          attribute->type == AttributeType::kTensors  ? "a list of tensors"
                          : attribute->type == AttributeType::kGraphs ? "a list of graphs"
                          : attribute->type == AttributeType::kTypeProto ||
                                  attribute->type == AttributeType::kTypeProtos
                              ? "types"
                              : "sparse tensors");
      default:
        source.fail(message.data(), "{} \"{}\": attribute {} has the unknown type {}", node.op,
                    node.name, named.name, static_cast<int64_t>(attribute->type));
    }
  }
  return attributes;
}

AttributeScope resolve_attributes(const Source& source,
                                  const std::vector<std::string_view>& messages,
                                  const AttributeScope* scope) {
  AttributeScope resolved;
  for (std::string_view message : messages) {
    const WireAttribute named = read_attribute(source, message);
    if (const WireAttribute* attribute = resolve(named, scope)) {
      resolved.insert_or_assign(named.name, *attribute);
    }
  }
  return resolved;
}

WireGraph read_graph_attribute(const Source& source, const WireAttribute& attribute) {
  const Values values = read_values(source, attribute.body);
  if (values.graph.data() == nullptr) {
    source.fail(attribute.body.data(), "attribute {} has no graph", attribute.name);
  }
  return read_graph(source, values.graph);
}

std::string_view tensor_attribute(const Source& source, const WireAttribute& attribute) {
  const Values values = read_values(source, attribute.body);
  if (values.tensor.data() == nullptr) {
    source.fail(attribute.body.data(), "attribute {} has no tensor", attribute.name);
  }
  return values.tensor;
}

std::optional<Strings> constant_strings(const Source& source, const WireNode& node,
                                        const AttributeScope* scope, TensorReader& tensors) {
  if (node.op != "Constant" || !node.domain.empty()) return std::nullopt;
  for (const auto& [name, attribute] : resolve_attributes(source, node.attributes, scope)) {
    const bool one = name == "value_string" && attribute.type == AttributeType::kString;
    if (one || (name == "value_strings" && attribute.type == AttributeType::kStrings)) {
      Values values = read_values(source, attribute.body);
      if (one) return Strings{.shape = {}, .values = {std::move(values.text)}};
      const auto count = static_cast<int64_t>(values.texts.size());
      return Strings{.shape = {count}, .values = std::move(values.texts)};
    }
    if (name != "value" || attribute.type != AttributeType::kTensor) continue;
    const std::string_view tensor = tensor_attribute(source, attribute);
    if (is_strings(source, tensor)) return tensors.read_value(tensor).strings();
  }
  return std::nullopt;
}

}  // namespace stretto::onnx
