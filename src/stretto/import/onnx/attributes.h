// AttributeProtos as attributes of the graph.
#pragma once

#include <optional>
#include <unordered_map>

#include "stretto/import/onnx/reader.h"
#include "stretto/import/onnx/tensor.h"
#include "stretto/ir/graph.h"
#include "stretto/tensor/any_value.h"

namespace stretto::onnx {

// The attributes of the function call that is being expanded, by name.
using AttributeScope = std::unordered_map<std::string_view, WireAttribute>;

struct NodeAttributes {
  ir::Attributes plain;
  std::map<std::string_view, std::string_view> graphs;  // GraphProtos by attribute name
};

// All attributes of a node. References are looked up in `scope` (null outside functions); one that
// the call does not give is left out. Throws FormatError, or Unsupported for kinds without meaning
// here.
NodeAttributes read_attributes(const Source& source, const WireNode& node,
                               const AttributeScope* scope, TensorReader& tensors);

// The same attributes still unread, references resolved: what a called function sees.
AttributeScope resolve_attributes(const Source& source,
                                  const std::vector<std::string_view>& messages,
                                  const AttributeScope* scope);

// What an attribute that is a graph, or a tensor, holds. Throw FormatError if it holds nothing.
WireGraph read_graph_attribute(const Source& source, const WireAttribute& attribute);
std::string_view tensor_attribute(const Source& source, const WireAttribute& attribute);

// The strings that a Constant holds; nothing of other nodes, and of a Constant of numbers.
std::optional<Strings> constant_strings(const Source& source, const WireNode& node,
                                        const AttributeScope* scope, TensorReader& tensors);

}  // namespace stretto::onnx
