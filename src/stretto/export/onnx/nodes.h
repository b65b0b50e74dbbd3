// How ONNX writes the graph's nodes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stretto/ir/graph.h"

namespace stretto::onnx {

struct ExportedNode {
  std::string_view op, domain;
  ir::Attributes attributes;  // as ONNX has them
  int64_t opset = 0;          // of ONNX's own domain, from which on it means this
  size_t least_outputs = 0;   // so many must have a name, also those that nothing reads
};

// Nothing where ONNX has no such operator.
std::optional<ExportedNode> exported_node(const ir::Graph& graph, const ir::Node& node);

// The oldest opset that has the element type.
int64_t opset_of(DType dtype);

// The version of a domain that models are written for; of ONNX's own that is `opset`.
int64_t domain_version(std::string_view domain, int64_t opset);

// The oldest version of the format that may name this opset.
int64_t ir_version_of(int64_t opset);

}  // namespace stretto::onnx
