// An ONNX file as plain structs of views: what stands in it, not yet what it means. Attributes,
// tensors and nested graphs stay unread bytes until somebody wants them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/import/onnx/schema.h"
#include "stretto/import/onnx/wire.h"

namespace stretto::onnx {

struct WireAttribute {
  std::string_view name;
  std::string_view
      reference;  // name of the enclosing function's attribute; empty: the value is here
  AttributeType type = AttributeType::kUndefined;
  std::string_view body;  // the AttributeProto
};

struct WireNode {
  std::string_view name, op, domain, overload;
  std::vector<std::string_view> inputs, outputs;  // "" where absent
  std::vector<std::string_view> attributes;       // AttributeProtos
  const char* position = nullptr;
};

struct WireDimension {
  std::optional<int64_t> value;
  std::string_view symbol;
};

struct WireInput {
  std::string_view name;
  DataType type = DataType::kUndefined;
  std::optional<std::vector<WireDimension>> shape;
  bool is_tensor = false;
  bool is_sequence = false, is_optional = false;  // of which `type` and `shape` say nothing
  const char* position = nullptr;
};

// What views of a model show that does not stand in the file.
using WireTexts = std::vector<std::shared_ptr<const std::string>>;

struct WireTensor {
  std::string_view name;
  std::string_view body;  // the TensorProto, or the SparseTensorProto
  bool is_sparse = false;
};

struct WireGraph {
  std::string_view name;
  std::vector<WireNode> nodes;  // in an order in which values are made before they are used
  std::vector<WireTensor> initializers;
  std::vector<WireInput> inputs;
  std::vector<std::string_view> outputs;
  std::vector<WireInput> output_types;  // what the file says of the outputs
  const char* position = nullptr;
};

using Opsets = std::map<std::string_view, int64_t>;  // version by domain; the default domain is ""

struct WireFunction {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attribute_defaults;  // AttributeProtos
  std::vector<WireNode> nodes;                       // ordered like those of a graph
  Opsets opsets;
  const char* position = nullptr;
};

struct WireModel {
  int64_t ir_version = 0;
  std::string_view producer_name, producer_version;
  Opsets opsets;
  std::optional<WireGraph> graph;
  WireTexts texts;
  std::vector<WireFunction> functions;
  bool has_training_info = false;
};

// All throw FormatError.
WireModel read_model(const Source& source);
WireGraph read_graph(const Source& source, std::string_view message);
WireAttribute read_attribute(const Source& source, std::string_view message);

}  // namespace stretto::onnx
