#include "stretto/export/onnx/nodes.h"

#include <algorithm>

#include "stretto/export/onnx/export.h"
#include "stretto/import/onnx/schema.h"
#include "stretto/import/onnx/signature.h"
#include "stretto/import/onnx/tensor.h"
#include "stretto/ir/operator.h"

namespace stretto::onnx {
namespace {

// What came after kExportedOpset: operators and, where one is named, attributes with another value
// than ONNX's default.
struct NewerRow {
  std::string_view op, attribute;
  int64_t opset;
};
constexpr NewerRow kNewer[] = {
    // A window that would start behind the image does not count since then.
    {"AveragePool", "ceil_mode", 22},
    {"BitCast", "", 26},
    {"Cast", "round_mode", 24},
    {"CastLike", "round_mode", 25},
    {"CumProd", "", 26},
    {"DequantizeLinear", "output_dtype", 23},
    {"LinearAttention", "", 27},
    {"LpPool", "ceil_mode", 22},
    {"MaxPool", "ceil_mode", 22},
    {"QuantizeLinear", "precision", 23},
    {"RMSNormalization", "", 23},
    {"SpaceToDepth", "mode", 28},
    {"Swish", "", 24},
    {"TensorScatter", "", 24},
};

// Element types of inputs that operators take since then.
struct NewerTypes {
  std::string_view op;
  ir::TypeSet types;
  int64_t opset;
};
constexpr ir::TypeSet kBFloat16 = ir::type_bit(DType::kBFloat16);
constexpr NewerTypes kNewerTypes[] = {
    {"BitShift",
     ir::type_bit(DType::kInt8) | ir::type_bit(DType::kInt16) | ir::type_bit(DType::kInt32) |
         ir::type_bit(DType::kInt64),
     28},
    {"Celu", ir::type_bit(DType::kFloat64), 28},
    {"Compress", kBFloat16, 28},
    {"OneHot", kBFloat16, 28},
    {"ReverseSequence", kBFloat16, 28},
};

// Operators of ONNX that the graph knows by another name.
struct NameRow {
  std::string_view ours, op;
};
constexpr NameRow kNames[] = {
    {"stretto.TreeEnsemble", "TreeEnsemble"},
};

// The outputs that ONNX wants and the graph leaves out when nothing reads them.
struct OutputsRow {
  std::string_view op;
  size_t count;
};
constexpr OutputsRow kLeastOutputs[] = {{"LinearAttention", 2}, {"TopK", 2}, {"Unique", 1}};

// What the graph knows of a node and ONNX does not write.
bool is_implied(const ir::Graph& graph, const ir::Node& node, std::string_view attribute) {
  if (node.op->name == "BitCast") return attribute == "from";
  if (node.op->random) return attribute == "node";
  // Division in the scale's precision is what older opsets mean.
  return node.op->name == "QuantizeLinear" && attribute == "precision" &&
         node.attributes.text("precision", "") == dtype_name(graph.value(node.inputs[1]).dtype);
}

// Whether an attribute is there and has another value than the default.
bool is_given(const Signature& signature, const ir::Attributes& attributes, std::string_view name) {
  const ir::Attribute* value = attributes.find(name);
  if (value == nullptr) return false;
  const std::string& fallback =
      signature.attributes[static_cast<size_t>(find_attribute(signature, name))].fallback;
  const auto* number = std::get_if<int64_t>(value);
  const auto* text = std::get_if<std::string>(value);
  return !((number != nullptr && std::to_string(*number) == fallback) ||
           (text != nullptr && *text == fallback));
}

ir::Attribute exported_attribute(const SignatureAttribute& spec, const ir::Attribute& value) {
  if (spec.kind == ir::AttributeKind::kInt) {
    if (const auto* type = std::get_if<std::string>(&value)) {
      return static_cast<int64_t>(data_type(parse_dtype(*type)));
    }
  }
  if (spec.kind == ir::AttributeKind::kFloat) {
    if (const auto* number = std::get_if<int64_t>(&value)) return static_cast<double>(*number);
  }
  if (spec.kind == ir::AttributeKind::kFloats) {
    if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value)) {
      return std::vector<double>(numbers->begin(), numbers->end());
    }
  }
  return value;
}

int64_t types_opset(const ir::Graph& graph, const ir::Node& node) {
  int64_t opset = kExportedOpset;
  for (const NewerTypes& row : kNewerTypes) {
    if (row.op != node.op->name) continue;
    for (ir::ValueId id : node.inputs) {
      if (id == ir::kNone || (row.types & ir::type_bit(graph.value(id).dtype)) == 0) continue;
      opset = std::max(opset, row.opset);
    }
  }
  for (const auto* ids : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *ids) {
      if (id != ir::kNone) opset = std::max(opset, opset_of(graph.value(id).dtype));
    }
  }
  return opset;
}

}  // namespace

int64_t opset_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat4E2M1:
      return 23;
    case DType::kFloat8E8M0:
      return 24;
    case DType::kInt2:
    case DType::kUInt2:
      return 25;
    default:
      return kExportedOpset;
  }
}

std::optional<ExportedNode> exported_node(const ir::Graph& graph, const ir::Node& node) {
  std::string_view name = node.op->name;
  for (const NameRow& row : kNames) {
    if (row.ours == name) name = row.op;
  }
  ExportedNode result{.op = name, .opset = types_opset(graph, node)};
  if (name == "Constant") {
    result.attributes = node.attributes;
    return result;
  }
  const Signature* signature = find_signature(name);
  if (signature == nullptr) return std::nullopt;
  result.domain = signature->domain;
  for (const auto& [key, value] : node.attributes.all()) {
    if (is_implied(graph, node, key)) continue;
    const int index = find_attribute(*signature, key);
    if (index < 0) return std::nullopt;
    result.attributes.set(key, exported_attribute(signature->attributes[index], value));
  }
  // ONNX's own shape inference takes an absent attribute for 0.
  if (name == "STFT" && !result.attributes.has("onesided")) {
    result.attributes.set("onesided", int64_t{1});
  }
  for (const OutputsRow& row : kLeastOutputs) {
    if (row.op == name) result.least_outputs = row.count;
  }
  for (const NewerRow& row : kNewer) {
    if (row.op != name) continue;
    if (row.attribute.empty() || is_given(*signature, result.attributes, row.attribute)) {
      result.opset = std::max(result.opset, row.opset);
    } else {
      result.attributes.erase(row.attribute);  // the default, which older opsets cannot name
    }
  }
  return result;
}

int64_t domain_version(std::string_view domain, int64_t opset) {
  return domain == "ai.onnx.ml" ? 5 : domain.empty() ? opset : 1;
}

int64_t ir_version_of(int64_t opset) {
  struct Row {
    int64_t opset, version;
  };
  constexpr Row kVersions[] = {{28, 14}, {25, 13}, {24, 12}, {23, 11}};
  for (const Row& row : kVersions) {
    if (opset >= row.opset) return row.version;
  }
  return 10;
}

}  // namespace stretto::onnx
