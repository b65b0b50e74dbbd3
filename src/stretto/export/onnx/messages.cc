#include "stretto/export/onnx/messages.h"

#include <fmt/format.h>

#include <iterator>
#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>

#include "stretto/import/onnx/schema.h"
#include "stretto/import/onnx/tensor.h"
#include "stretto/tensor/narrow.h"

namespace stretto::onnx {
namespace {

template <typename F>
std::string message(F&& fill) {
  std::string data;
  protozero::pbf_writer writer(data);
  fill(writer);
  return data;
}

void add_text(protozero::pbf_writer& w, uint32_t field, std::string_view text) {
  w.add_string(field, text.data(), text.size());
}

void add_type(protozero::pbf_writer& w, uint32_t field, DType dtype) {
  w.add_int32(field, static_cast<int32_t>(data_type(dtype)));
}

void add_tensor_head(protozero::pbf_writer& w, std::string_view name, const Tensor& tensor) {
  for (int64_t size : tensor.shape()) w.add_int64(tensor_field::kDims, size);
  add_type(w, tensor_field::kDataType, tensor.dtype());
  if (!name.empty()) add_text(w, tensor_field::kName, name);
}

void add_value(protozero::pbf_writer& w, const ir::Attribute& value) {
  const auto kind = [&](AttributeType type) {
    w.add_int32(attribute_field::kType, static_cast<int32_t>(type));
  };
  if (const auto* number = std::get_if<int64_t>(&value)) {
    w.add_int64(attribute_field::kInt, *number);
    kind(AttributeType::kInt);
  } else if (const auto* real = std::get_if<double>(&value)) {
    w.add_float(attribute_field::kFloat, static_cast<float>(*real));
    kind(AttributeType::kFloat);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    add_text(w, attribute_field::kString, *text);
    kind(AttributeType::kString);
  } else if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value)) {
    for (int64_t one : *numbers) w.add_int64(attribute_field::kInts, one);
    kind(AttributeType::kInts);
  } else if (const auto* reals = std::get_if<std::vector<double>>(&value)) {
    for (double one : *reals) w.add_float(attribute_field::kFloats, static_cast<float>(one));
    kind(AttributeType::kFloats);
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& one : *texts) add_text(w, attribute_field::kStrings, one);
    kind(AttributeType::kStrings);
  } else {
    w.add_message(attribute_field::kTensor, tensor_message("", std::get<Tensor>(value)));
    kind(AttributeType::kTensor);
  }
}

std::string entry_message(std::string_view key, std::string_view value) {
  return message([&](auto& w) {
    add_text(w, entry_field::kKey, key);
    add_text(w, entry_field::kValue, value);
  });
}

}  // namespace

std::string_view raw_bytes(const Tensor& tensor, std::string& packed) {
  const auto* bytes = static_cast<const unsigned char*>(tensor.data());
  const auto count = static_cast<size_t>(tensor.count());
  const size_t bits = is_narrow(tensor.dtype()) ? narrow_bits(tensor.dtype()) : 8;
  if (bits == 8) return {static_cast<const char*>(tensor.data()), tensor.bytes()};
  const size_t each = 8 / bits;
  packed.assign((count + each - 1) / each, '\0');
  for (size_t i = 0; i < count; ++i) {
    const unsigned element = bytes[i] & ((1u << bits) - 1);
    packed[i / each] = static_cast<char>(static_cast<unsigned char>(packed[i / each]) |
                                         element << (i % each * bits));
  }
  return packed;
}

std::string tensor_message(std::string_view name, const Tensor& tensor) {
  return message([&](auto& w) {
    add_tensor_head(w, name, tensor);
    std::string packed;
    add_text(w, tensor_field::kRawData, raw_bytes(tensor, packed));
  });
}

std::string tensor_message_before(std::string_view name, const Tensor& tensor, size_t raw_bytes) {
  return message([&](auto& w) { add_tensor_head(w, name, tensor); }) +
         part_head(tensor_field::kRawData, raw_bytes);
}

std::string part_head(uint32_t field, size_t bytes) {
  constexpr uint32_t kLengthDelimited = 2;
  std::string head;
  protozero::write_varint(std::back_inserter(head), field << 3 | kLengthDelimited);
  protozero::write_varint(std::back_inserter(head), bytes);
  return head;
}

std::string external_tensor_message(std::string_view name, const Tensor& tensor,
                                    const ExternalPlace& place) {
  return message([&](auto& w) {
    add_tensor_head(w, name, tensor);
    w.add_message(tensor_field::kExternalData, entry_message("location", place.file));
    w.add_message(tensor_field::kExternalData,
                  entry_message("offset", fmt::format("{}", place.offset)));
    w.add_message(tensor_field::kExternalData,
                  entry_message("length", fmt::format("{}", place.bytes)));
    w.add_int32(tensor_field::kDataLocation, static_cast<int32_t>(kExternalLocation));
  });
}

std::string attribute_message(const std::string& name, const ir::Attribute& value) {
  return message([&](auto& w) {
    w.add_string(attribute_field::kName, name);
    add_value(w, value);
  });
}

std::string node_message(const ExportedNode& node, std::string_view label,
                         const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs) {
  return message([&](auto& w) {
    for (const std::string& name : inputs) w.add_string(node_field::kInput, name);
    for (const std::string& name : outputs) w.add_string(node_field::kOutput, name);
    add_text(w, node_field::kName, label);
    add_text(w, node_field::kOpType, node.op);
    for (const auto& [name, value] : node.attributes.all()) {
      w.add_message(node_field::kAttribute, attribute_message(name, value));
    }
    if (!node.domain.empty()) add_text(w, node_field::kDomain, node.domain);
  });
}

std::string value_info_message(const std::string& name, DType dtype, const ShapeRange* shape) {
  const auto dimensions = [&](auto& w) {
    for (const Dimension& d : *shape) {
      w.add_message(shape_field::kDim, message([&](auto& to) {
                      if (d.fixed()) {
                        to.add_int64(dimension_field::kValue, d.least);
                      } else if (!d.name.empty()) {
                        add_text(to, dimension_field::kParam, d.name);
                      }
                    }));
    }
  };
  const std::string tensor = message([&](auto& w) {
    add_type(w, tensor_type_field::kElemType, dtype);
    if (shape != nullptr) w.add_message(tensor_type_field::kShape, message(dimensions));
  });
  return message([&](auto& w) {
    w.add_string(value_info_field::kName, name);
    w.add_message(value_info_field::kType,
                  message([&](auto& t) { t.add_message(type_field::kTensor, tensor); }));
  });
}

std::string opset_message(std::string_view domain, int64_t version) {
  return message([&](auto& w) {
    add_text(w, opset_field::kDomain, domain);
    w.add_int64(opset_field::kVersion, version);
  });
}

}  // namespace stretto::onnx
