// One operator as a model of its own: for whoever calls operators one by one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/import/model.h"

namespace stretto::onnx {

struct PendingNode;

// An input that the node is to have. One without a type is absent.
struct NodeInput {
  std::string name;
  DType dtype = DType::kUndefined;
  Shape shape;
  Tensor constant;  // defined where the value is known
};

struct NodeRequest {
  std::string_view domain, op;
  std::vector<NodeInput> inputs;
  ir::Attributes attributes;  // as ONNX has them: element types are numbers of DataType
  int outputs = 1;
  int64_t opset = 0;  // of ONNX's own domain; 0: the newest
  // Another form of the node, emitted before upgrades and compositions are looked for; may be null.
  // It sets `results` where it knows one.
  void (*form)(PendingNode&) = nullptr;
};

// The model of that node: its inputs are the inputs that are neither absent nor known, in order.
// Throws InvalidArgument or Unsupported beginning with the operator.
ImportedModel import_node(const NodeRequest& request);

// The text of an error of an operator that is called alone: it begins with the operator, and names
// no node.
std::string error_of_operator(std::string text, std::string_view op);

// Calls f(), whose InvalidArgument and Unsupported then have such texts.
template <typename F>
decltype(auto) with_operator(std::string_view op, F&& f) {
  try {
    return f();
  } catch (const InvalidArgument& error) {
    throw InvalidArgument(error_of_operator(error.what(), op));
  } catch (const Unsupported& error) {
    throw Unsupported(error_of_operator(error.what(), op));
  }
}

}  // namespace stretto::onnx
