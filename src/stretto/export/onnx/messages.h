// The protobuf messages of an ONNX model, one function each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/export/onnx/nodes.h"
#include "stretto/ir/graph.h"
#include "stretto/tensor/shape_range.h"

namespace stretto::onnx {

// Where a tensor's bytes stand in the file of external data.
struct ExternalPlace {
  std::string_view file;
  int64_t offset = 0, bytes = 0;
};

// The tensor's elements as ONNX stores them: those of types below a byte, several in each.
// `packed` holds them where they are not the tensor's own memory.
std::string_view raw_bytes(const Tensor& tensor, std::string& packed);

std::string tensor_message(std::string_view name, const Tensor& tensor);
// All of a tensor's message but for the raw bytes, so many, that end it.
std::string tensor_message_before(std::string_view name, const Tensor& tensor, size_t raw_bytes);
// What stands before a part of so many bytes: a message in a message, or raw bytes.
std::string part_head(uint32_t field, size_t bytes);
std::string external_tensor_message(std::string_view name, const Tensor& tensor,
                                    const ExternalPlace& place);
std::string attribute_message(const std::string& name, const ir::Attribute& value);
// `names`: of the inputs and outputs, "" where one is absent.
std::string node_message(const ExportedNode& node, std::string_view label,
                         const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs);
// Open dimensions have their names, or none; null: nothing is said of the shape.
std::string value_info_message(const std::string& name, DType dtype, const ShapeRange* shape);
std::string opset_message(std::string_view domain, int64_t version);

}  // namespace stretto::onnx
