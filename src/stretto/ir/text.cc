#include "stretto/ir/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "stretto/ir/operator.h"
#include "stretto/tensor/narrow.h"

namespace stretto::ir {
namespace {

constexpr int64_t kMaxCommentElements = 8;

using Text = std::string;

template <typename... Args>
void append(Text& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

bool is_bare(std::string_view name) {
  for (const std::string_view taken : {"", "_", "...", "as", "constant", "input", "output"}) {
    if (name == taken) return false;
  }
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '/' || c == '-' || c == '+';
  });
}

void append_quoted(Text& text, std::string_view value) {
  text += '"';
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      append(text, "\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  text += '"';
}

void append_name(Text& text, std::string_view name) {
  if (is_bare(name)) {
    text += name;
  } else {
    append_quoted(text, name);
  }
}

// A point, exponent or word marks a number as floating point, so that attributes keep their kind.
template <typename T>
void append_float(Text& text, T value) {
  const size_t start = text.size();
  if (std::isnan(value)) {
    text += "nan";
  } else {
    append(text, "{}", value);
  }
  if (text.find_first_of(".en", start) == Text::npos) text += ".0";
}

void append_element(Text& text, const Tensor& tensor, int64_t i) {
  const void* data = tensor.data();
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return append_float(text, static_cast<const float*>(data)[i]);
    case DType::kFloat64:
      return append_float(text, static_cast<const double*>(data)[i]);
    case DType::kFloat16:
      return append_float(text, half_to_float(static_cast<const uint16_t*>(data)[i]));
    case DType::kBFloat16:
      return append_float(text, bfloat16_to_float(static_cast<const uint16_t*>(data)[i]));
    case DType::kInt8:
      return append(text, "{}", static_cast<const int8_t*>(data)[i]);
    case DType::kInt16:
      return append(text, "{}", static_cast<const int16_t*>(data)[i]);
    case DType::kInt32:
      return append(text, "{}", static_cast<const int32_t*>(data)[i]);
    case DType::kInt64:
      return append(text, "{}", static_cast<const int64_t*>(data)[i]);
    case DType::kUInt8:
      return append(text, "{}", static_cast<const uint8_t*>(data)[i]);
    case DType::kUInt16:
      return append(text, "{}", static_cast<const uint16_t*>(data)[i]);
    case DType::kUInt32:
      return append(text, "{}", static_cast<const uint32_t*>(data)[i]);
    case DType::kUInt64:
      return append(text, "{}", static_cast<const uint64_t*>(data)[i]);
    case DType::kBool:
      text += static_cast<const uint8_t*>(data)[i] != 0 ? "true" : "false";
      return;
    case DType::kUndefined:
      return;
    default: {
      const Tensor one(tensor.dtype(), {}, static_cast<const uint8_t*>(data) + i, nullptr);
      return append_element(text, unnarrowed(one), 0);
    }
  }
}

bool all_equal(const Tensor& tensor) {
  const size_t bytes = dtype_bytes(tensor.dtype());
  const auto* data = static_cast<const char*>(tensor.data());
  return std::memcmp(data, data + bytes, tensor.bytes() - bytes) == 0;
}

void append_elements(Text& text, const Tensor& tensor, const TextOptions& options) {
  if (tensor.count() > options.max_constant_elements) {
    text += "...";
    return;
  }
  text += '{';
  if (tensor.count() > 2 && tensor.count() <= kMaxFilledElements && all_equal(tensor)) {
    append_element(text, tensor, 0);
    text += " ...";
  } else {
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (i > 0) text += ", ";
      append_element(text, tensor, i);
    }
  }
  text += '}';
}

void append_shape(Text& text, const Shape& shape) {
  text += '[';
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    if (shape[i] < 0) {
      text += '?';
    } else {
      append(text, "{}", shape[i]);
    }
  }
  text += ']';
}

void append_value(Text& text, const Value& value) {
  append_name(text, value.name);
  if (value.dtype == DType::kUndefined) return;
  append(text, ": {}", dtype_name(value.dtype));
  if (value.shape) append_shape(text, *value.shape);
}

template <typename T, typename F>
void append_list(Text& text, std::string_view kind, const std::vector<T>& list, F&& element) {
  if (list.empty()) text += kind;  // an empty list does not show what it could hold
  text += '[';
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) text += ", ";
    element(list[i]);
  }
  text += ']';
}

struct AttributeWriter {
  Text& text;
  const TextOptions& options;

  void operator()(int64_t value) { append(text, "{}", value); }
  void operator()(double value) { append_float(text, value); }
  void operator()(const std::string& value) { append_quoted(text, value); }
  void operator()(const std::vector<int64_t>& list) {
    append_list(text, "ints", list, [&](int64_t v) { (*this)(v); });
  }
  void operator()(const std::vector<double>& list) {
    append_list(text, "floats", list, [&](double v) { (*this)(v); });
  }
  void operator()(const std::vector<std::string>& list) {
    append_list(text, "strings", list, [&](const std::string& v) { (*this)(v); });
  }
  void operator()(const Tensor& tensor) {
    text += dtype_name(tensor.dtype());
    append_shape(text, tensor.shape());
    append_elements(text, tensor, options);
  }
};

void append_node(Text& text, const Graph& graph, const Node& node, const TextOptions& options) {
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (i > 0) text += ", ";
    if (node.outputs[i] == kNone) {
      text += '_';
    } else {
      append_value(text, graph.value(node.outputs[i]));
    }
  }
  append(text, " = {}(", node.op->name);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (i > 0) text += ", ";
    if (node.inputs[i] == kNone) {
      text += '_';
    } else {
      append_name(text, graph.value(node.inputs[i]).name);
    }
  }
  text += ')';
  if (!node.attributes.all().empty()) {
    const char* separator = " {";
    for (const auto& [name, attribute] : node.attributes.all()) {
      text += separator;
      append_name(text, name);
      text += " = ";
      std::visit(AttributeWriter{text, options}, attribute);
      separator = ", ";
    }
    text += '}';
  }
  const bool named_after_output = !node.outputs.empty() && node.outputs[0] != kNone &&
                                  graph.value(node.outputs[0]).name == node.name;
  if (!named_after_output) {
    text += " as ";
    append_name(text, node.name);
  }
  if (!node.outputs.empty() && node.outputs[0] != kNone) {
    const Value& first = graph.value(node.outputs[0]);
    if (first.is_constant() && first.constant.count() <= kMaxCommentElements) {
      text += "  # ";
      append_elements(text, first.constant, options);
    }
  }
}

}  // namespace

std::string to_text(const Graph& graph, const TextOptions& options) {
  Text text = "graph ";
  append_name(text, graph.name.empty() ? "unnamed" : graph.name);
  text += '\n';
  std::vector<bool> elsewhere(graph.values.size(), false);
  for (ValueId id : graph.inputs) {
    elsewhere[id] = true;
    text += "input ";
    append_value(text, graph.value(id));
    text += '\n';
  }
  for (const Node& node : graph.nodes) {
    for (ValueId id : node.outputs) {
      if (id != kNone) elsewhere[id] = true;
    }
  }
  for (size_t id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (elsewhere[id] || !value.is_constant()) continue;
    text += "constant ";
    append_value(text, value);
    text += " = ";
    append_elements(text, value.constant, options);
    text += '\n';
  }
  for (const Node& node : graph.nodes) {
    append_node(text, graph, node, options);
    text += '\n';
  }
  const char* separator = "output ";
  for (ValueId id : graph.outputs) {
    text += separator;
    append_name(text, graph.value(id).name);
    separator = ", ";
  }
  if (!graph.outputs.empty()) text += '\n';
  return text;
}

}  // namespace stretto::ir
