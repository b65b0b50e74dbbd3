// Writes ONNX models for the importer's tests: each function makes one protobuf message.
#pragma once

#include <initializer_list>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/import/onnx/import.h"
#include "stretto/import/onnx/schema.h"

namespace stretto::onnx::testing {

using Names = std::vector<std::string>;

template <typename F>
std::string message(F&& fill) {
  std::string data;
  protozero::pbf_writer writer(data);
  fill(writer);
  return data;
}

template <typename T>
std::string raw(std::initializer_list<T> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T));
}

inline std::string tensor(std::string_view name, DataType type, const std::vector<int64_t>& dims,
                          const std::string& data) {
  return message([&](auto& w) {
    for (int64_t dim : dims) w.add_int64(tensor_field::kDims, dim);
    w.add_int64(tensor_field::kDataType, static_cast<int64_t>(type));
    w.add_string(tensor_field::kName, name.data(), name.size());
    w.add_string(tensor_field::kRawData, data);
  });
}

inline std::string floats(std::string_view name, const std::vector<int64_t>& dims,
                          std::initializer_list<float> values) {
  return tensor(name, DataType::kFloat, dims, raw<float>(values));
}

inline std::string int64s(std::string_view name, std::initializer_list<int64_t> values) {
  return tensor(name, DataType::kInt64, {static_cast<int64_t>(values.size())},
                raw<int64_t>(values));
}

template <typename F>
std::string attribute(std::string_view name, AttributeType type, F&& fill) {
  return message([&](auto& w) {
    w.add_string(attribute_field::kName, name.data(), name.size());
    w.add_int64(attribute_field::kType, static_cast<int64_t>(type));
    fill(w);
  });
}
inline std::string attr(std::string_view name, int64_t value) {
  return attribute(name, AttributeType::kInt,
                   [&](auto& w) { w.add_int64(attribute_field::kInt, value); });
}
inline std::string attr_float(std::string_view name, float value) {
  return attribute(name, AttributeType::kFloat,
                   [&](auto& w) { w.add_float(attribute_field::kFloat, value); });
}
inline std::string attr_text(std::string_view name, const std::string& value) {
  return attribute(name, AttributeType::kString,
                   [&](auto& w) { w.add_string(attribute_field::kString, value); });
}
inline std::string attr_ints(std::string_view name, const std::vector<int64_t>& values) {
  return attribute(name, AttributeType::kInts, [&](auto& w) {
    w.add_packed_int64(attribute_field::kInts, values.begin(), values.end());
  });
}
inline std::string attr_floats(std::string_view name, const std::vector<float>& values) {
  return attribute(name, AttributeType::kFloats, [&](auto& w) {
    for (float value : values) w.add_float(attribute_field::kFloats, value);
  });
}
inline std::string attr_tensor(std::string_view name, const std::string& value) {
  return attribute(name, AttributeType::kTensor,
                   [&](auto& w) { w.add_message(attribute_field::kTensor, value); });
}
inline std::string attr_graph(std::string_view name, const std::string& value) {
  return attribute(name, AttributeType::kGraph,
                   [&](auto& w) { w.add_message(attribute_field::kGraph, value); });
}
inline std::string attr_reference(std::string_view name, const std::string& outer,
                                  AttributeType type) {
  return attribute(name, type,
                   [&](auto& w) { w.add_string(attribute_field::kRefAttrName, outer); });
}

// The node is named after its operator in lower case, "relu", unless it says otherwise.
struct NodeOptions {
  std::string domain, name;
};
inline std::string node(const std::string& op, const Names& inputs, const Names& outputs,
                        const std::vector<std::string>& attributes = {},
                        const NodeOptions& options = {}) {
  return message([&](auto& w) {
    for (const std::string& input : inputs) w.add_string(node_field::kInput, input);
    for (const std::string& output : outputs) w.add_string(node_field::kOutput, output);
    std::string name = options.name.empty() ? op : options.name;
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    w.add_string(node_field::kName, name);
    w.add_string(node_field::kOpType, op);
    for (const std::string& one : attributes) w.add_message(node_field::kAttribute, one);
    if (!options.domain.empty()) w.add_string(node_field::kDomain, options.domain);
  });
}

// A dimension is a number, a symbol, or "" for an open one without a name.
inline std::string input(const std::string& name, const Names& dims,
                         DataType type = DataType::kFloat) {
  const std::string shape = message([&](auto& w) {
    for (const std::string& dim : dims) {
      w.add_message(shape_field::kDim, message([&](auto& d) {
                      const bool number =
                          !dim.empty() &&
                          (std::isdigit(static_cast<unsigned char>(dim[0])) || dim[0] == '-');
                      if (number) {
                        d.add_int64(dimension_field::kValue, std::stoll(dim));
                      } else if (!dim.empty()) {
                        d.add_string(dimension_field::kParam, dim);
                      }
                    }));
    }
  });
  const std::string tensor_type = message([&](auto& w) {
    w.add_int64(tensor_type_field::kElemType, static_cast<int64_t>(type));
    w.add_message(tensor_type_field::kShape, shape);
  });
  return message([&](auto& w) {
    w.add_string(value_info_field::kName, name);
    w.add_message(value_info_field::kType,
                  message([&](auto& t) { t.add_message(type_field::kTensor, tensor_type); }));
  });
}

struct GraphParts {
  std::vector<std::string> nodes, inputs;
  Names outputs;
  std::vector<std::string> initializers;
};
inline std::string graph(const GraphParts& parts) {
  return message([&](auto& w) {
    for (const std::string& one : parts.nodes) w.add_message(graph_field::kNode, one);
    w.add_string(graph_field::kName, "test");
    for (const std::string& one : parts.initializers) w.add_message(graph_field::kInitializer, one);
    for (const std::string& one : parts.inputs) w.add_message(graph_field::kInput, one);
    for (const std::string& name : parts.outputs) {
      w.add_message(graph_field::kOutput,
                    message([&](auto& v) { v.add_string(value_info_field::kName, name); }));
    }
  });
}

inline std::string opset_import(const std::string& domain, int64_t version) {
  return message([&](auto& w) {
    w.add_string(opset_field::kDomain, domain);
    w.add_int64(opset_field::kVersion, version);
  });
}

struct FunctionParts {
  std::string name;
  Names inputs, outputs;
  std::vector<std::string> nodes, attribute_defaults;
  int64_t opset = 17;
};
inline std::string function(const FunctionParts& parts) {  // of domain "local"
  return message([&](auto& w) {
    w.add_string(function_field::kName, parts.name);
    for (const std::string& one : parts.inputs) w.add_string(function_field::kInput, one);
    for (const std::string& one : parts.outputs) w.add_string(function_field::kOutput, one);
    for (const std::string& one : parts.nodes) w.add_message(function_field::kNode, one);
    w.add_message(function_field::kOpsetImport, opset_import("", parts.opset));
    w.add_string(function_field::kDomain, "local");
    for (const std::string& one : parts.attribute_defaults) {
      w.add_message(function_field::kAttributeProto, one);
    }
  });
}

inline std::string model(const std::string& graph_message, int64_t opset = 17,
                         const std::vector<std::string>& functions = {}) {
  return message([&](auto& w) {
    w.add_int64(model_field::kIrVersion, 8);
    w.add_string(model_field::kProducerName, "tests");
    w.add_message(model_field::kOpsetImport, opset_import("", opset));
    w.add_message(model_field::kGraph, graph_message);
    for (const std::string& one : functions) w.add_message(model_field::kFunctions, one);
  });
}
inline std::string model(const GraphParts& parts, int64_t opset = 17,
                         const std::vector<std::string>& functions = {}) {
  return model(graph(parts), opset, functions);
}

inline ImportedModel load(const std::string& bytes, const ImportOptions& options = {}) {
  return import_onnx_bytes({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()},
                           "t.onnx", {}, options);
}

// What the importer says against the model: the kind of error and its text. "" when it has nothing
// to say.
inline std::string refusal(const std::string& bytes, const ImportOptions& options = {}) {
  try {
    load(bytes, options);
  } catch (const FormatError& error) {
    return std::string("FormatError ") + error.what();
  } catch (const InvalidArgument& error) {
    return std::string("InvalidArgument ") + error.what();
  } catch (const Unsupported& error) {
    return std::string("Unsupported ") + error.what();
  }
  return "";
}

}  // namespace stretto::onnx::testing
