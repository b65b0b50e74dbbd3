#include "stretto/import/onnx/reader.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "stretto/import/onnx/text_labels.h"

namespace stretto::onnx {
namespace {

std::string_view standard_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view{} : domain;
}

WireNode read_node(const Source& source, std::string_view message) {
  WireNode node;
  node.position = message.data();
  Fields fields(source, message, "node");
  while (fields.next()) {
    switch (fields.tag()) {
      case node_field::kInput:
        node.inputs.push_back(fields.text());
        break;
      case node_field::kOutput:
        node.outputs.push_back(fields.text());
        break;
      case node_field::kName:
        node.name = fields.text();
        break;
      case node_field::kOpType:
        node.op = fields.text();
        break;
      case node_field::kDomain:
        node.domain = standard_domain(fields.text());
        break;
      case node_field::kOverload:
        node.overload = fields.text();
        break;
      case node_field::kAttribute:
        node.attributes.push_back(fields.bytes());
        break;
      default:
        fields.skip();
    }
  }
  if (node.op.empty()) source.fail(message.data(), "node \"{}\" has no operator", node.name);
  return node;
}

void read_opset(const Source& source, std::string_view message, Opsets& opsets) {
  std::string_view domain;
  int64_t version = 0;
  Fields fields(source, message, "opset import");
  while (fields.next()) {
    switch (fields.tag()) {
      case opset_field::kDomain:
        domain = standard_domain(fields.text());
        break;
      case opset_field::kVersion:
        version = fields.integer();
        break;
      default:
        fields.skip();
    }
  }
  opsets[domain] = version;
}

WireDimension read_dimension(const Source& source, std::string_view message) {
  WireDimension dimension;
  Fields fields(source, message, "dimension");
  while (fields.next()) {
    switch (fields.tag()) {
      case dimension_field::kValue:
        dimension.value = fields.integer();
        break;
      case dimension_field::kParam:
        dimension.symbol = fields.text();
        break;
      default:
        fields.skip();
    }
  }
  return dimension;
}

void read_tensor_type(const Source& source, std::string_view message, WireInput& input) {
  input.is_tensor = true;
  Fields fields(source, message, "tensor type");
  while (fields.next()) {
    switch (fields.tag()) {
      case tensor_type_field::kElemType:
        input.type = static_cast<DataType>(fields.integer());
        break;
      case tensor_type_field::kShape: {
        input.shape.emplace();
        Fields shape(source, fields.bytes(), "shape");
        while (shape.next()) {
          if (shape.tag() == shape_field::kDim) {
            input.shape->push_back(read_dimension(source, shape.bytes()));
          } else {
            shape.skip();
          }
        }
        break;
      }
      default:
        fields.skip();
    }
  }
}

WireInput read_input(const Source& source, std::string_view message) {
  WireInput input;
  input.position = message.data();
  Fields fields(source, message, "input");
  while (fields.next()) {
    if (fields.tag() == value_info_field::kName) {
      input.name = fields.text();
    } else if (fields.tag() == value_info_field::kType) {
      Fields type(source, fields.bytes(), "type");
      while (type.next()) {
        if (type.tag() == type_field::kTensor) {
          read_tensor_type(source, type.bytes(), input);
        } else if (type.tag() == type_field::kSequence || type.tag() == type_field::kOptional) {
          (type.tag() == type_field::kSequence ? input.is_sequence : input.is_optional) = true;
          type.skip();
        } else {
          type.skip();
        }
      }
    } else {
      fields.skip();
    }
  }
  return input;
}

std::string_view read_name(const Source& source, std::string_view message, uint32_t tag,
                           const char* what) {
  std::string_view name;
  Fields fields(source, message, what);
  while (fields.next()) {
    if (fields.tag() == tag) {
      name = fields.text();
    } else {
      fields.skip();
    }
  }
  return name;
}

// The TensorProto whose name is that of a SparseTensorProto.
std::string_view sparse_values(const Source& source, std::string_view message) {
  std::string_view values = message.substr(0, 0);
  Fields fields(source, message, "sparse initializer");
  while (fields.next()) {
    if (fields.tag() == sparse_tensor_field::kValues) {
      values = fields.bytes();
    } else {
      fields.skip();
    }
  }
  return values;
}

// The file's order wherever that is right, which ONNX asks for but not every writer keeps.
void sort_nodes(const Source& source, std::vector<WireNode>& nodes) {
  std::unordered_map<std::string_view, size_t> makers;
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (std::string_view output : nodes[n].outputs) {
      if (output.empty()) continue;
      const auto [at, fresh] = makers.try_emplace(output, n);
      if (!fresh) {
        source.fail(nodes[n].position, "value \"{}\" is made twice, by nodes \"{}\" and \"{}\"",
                    output, nodes[at->second].name, nodes[n].name);
      }
    }
  }
  bool sorted = true;
  std::vector<int> waiting(nodes.size(), 0);
  std::vector<std::vector<size_t>> followers(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (std::string_view input : nodes[n].inputs) {
      const auto maker = makers.find(input);
      if (maker == makers.end()) continue;
      sorted = sorted && maker->second < n;
      ++waiting[n];
      followers[maker->second].push_back(n);
    }
  }
  if (sorted) return;
  std::vector<size_t> ready;
  const auto push = [&](size_t n) {
    ready.push_back(n);
    std::push_heap(ready.begin(), ready.end(), std::greater<>());
  };
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (waiting[n] == 0) push(n);
  }
  std::vector<WireNode> ordered;
  ordered.reserve(nodes.size());
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), std::greater<>());
    const size_t n = ready.back();
    ready.pop_back();
    waiting[n] = -1;
    ordered.push_back(std::move(nodes[n]));
    for (size_t follower : followers[n]) {
      if (--waiting[follower] == 0) push(follower);
    }
  }
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (waiting[n] > 0) {
      source.fail(nodes[n].position, "node {} \"{}\" depends on its own result", nodes[n].op,
                  nodes[n].name);
    }
  }
  nodes = std::move(ordered);
}

WireFunction read_function(const Source& source, std::string_view message) {
  WireFunction function;
  function.position = message.data();
  Fields fields(source, message, "function");
  while (fields.next()) {
    switch (fields.tag()) {
      case function_field::kName:
        function.name = fields.text();
        break;
      case function_field::kDomain:
        function.domain = standard_domain(fields.text());
        break;
      case function_field::kOverload:
        function.overload = fields.text();
        break;
      case function_field::kInput:
        function.inputs.push_back(fields.text());
        break;
      case function_field::kOutput:
        function.outputs.push_back(fields.text());
        break;
      case function_field::kNode:
        function.nodes.push_back(read_node(source, fields.bytes()));
        break;
      case function_field::kOpsetImport:
        read_opset(source, fields.bytes(), function.opsets);
        break;
      case function_field::kAttributeProto:
        function.attribute_defaults.push_back(fields.bytes());
        break;
      default:
        fields.skip();
    }
  }
  sort_nodes(source, function.nodes);
  return function;
}

}  // namespace

WireGraph read_graph(const Source& source, std::string_view message) {
  WireGraph graph;
  graph.position = message.data();
  Fields fields(source, message, "graph");
  while (fields.next()) {
    switch (fields.tag()) {
      case graph_field::kNode:
        graph.nodes.push_back(read_node(source, fields.bytes()));
        break;
      case graph_field::kName:
        graph.name = fields.text();
        break;
      case graph_field::kInput:
        graph.inputs.push_back(read_input(source, fields.bytes()));
        break;
      case graph_field::kOutput:
        graph.output_types.push_back(read_input(source, fields.bytes()));
        graph.outputs.push_back(graph.output_types.back().name);
        break;
      case graph_field::kInitializer: {
        const std::string_view body = fields.bytes();
        graph.initializers.push_back(
            {read_name(source, body, tensor_field::kName, "initializer"), body});
        break;
      }
      case graph_field::kSparseInitializer: {
        const std::string_view body = fields.bytes();
        const std::string_view values = sparse_values(source, body);
        graph.initializers.push_back(
            {read_name(source, values, tensor_field::kName, "initializer"), body, true});
        break;
      }
      default:
        fields.skip();
    }
  }
  sort_nodes(source, graph.nodes);
  return graph;
}

WireAttribute read_attribute(const Source& source, std::string_view message) {
  WireAttribute attribute{.body = message};
  // Writers of IR version 1 left the type out: the field that is present tells it.
  AttributeType guess = AttributeType::kUndefined;
  Fields fields(source, message, "attribute");
  while (fields.next()) {
    switch (fields.tag()) {
      case attribute_field::kName:
        attribute.name = fields.text();
        continue;
      case attribute_field::kRefAttrName:
        attribute.reference = fields.text();
        continue;
      case attribute_field::kType:
        attribute.type = static_cast<AttributeType>(fields.integer());
        continue;
      case attribute_field::kFloat:
        guess = AttributeType::kFloat;
        break;
      case attribute_field::kInt:
        guess = AttributeType::kInt;
        break;
      case attribute_field::kString:
        guess = AttributeType::kString;
        break;
      case attribute_field::kTensor:
        guess = AttributeType::kTensor;
        break;
      case attribute_field::kGraph:
        guess = AttributeType::kGraph;
        break;
      case attribute_field::kFloats:
        guess = AttributeType::kFloats;
        break;
      case attribute_field::kInts:
        guess = AttributeType::kInts;
        break;
      case attribute_field::kStrings:
        guess = AttributeType::kStrings;
        break;
      default:
        break;
    }
    fields.skip();
  }
  if (attribute.name.empty()) source.fail(message.data(), "an attribute has no name");
  if (attribute.type == AttributeType::kUndefined) attribute.type = guess;
  return attribute;
}

WireModel read_model(const Source& source) {
  WireModel model;
  if (source.bytes.empty()) source.fail(source.bytes.data(), "the file is empty");
  Fields fields(source, source.bytes, "model (is this an ONNX file?)");
  while (fields.next()) {
    switch (fields.tag()) {
      case model_field::kIrVersion:
        model.ir_version = fields.integer();
        break;
      case model_field::kProducerName:
        model.producer_name = fields.text();
        break;
      case model_field::kProducerVersion:
        model.producer_version = fields.text();
        break;
      case model_field::kOpsetImport:
        read_opset(source, fields.bytes(), model.opsets);
        break;
      case model_field::kGraph:
        if (model.graph) source.fail(fields.position(), "a second graph; a model has one");
        model.graph = read_graph(source, fields.bytes());
        break;
      case model_field::kFunctions:
        model.functions.push_back(read_function(source, fields.bytes()));
        break;
      case model_field::kTrainingInfo:
        model.has_training_info = true;
        fields.skip();
        break;
      default:
        fields.skip();
    }
  }
  if (!model.graph) source.fail(source.bytes.data(), "no graph found: this is not an ONNX model");
  split_text_labels(source, model.graph->nodes, model.texts);
  return model;
}

}  // namespace stretto::onnx
