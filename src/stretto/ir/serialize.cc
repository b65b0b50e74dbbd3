#include "stretto/ir/serialize.h"

#include <algorithm>
#include <charconv>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/ir/limits.h"
#include "stretto/ir/operator.h"

namespace stretto::ir {

using nlohmann::json;

json write_tensor(const Tensor& tensor, Pieces& block) {
  block.align(kAlignment);
  const size_t offset = block.size();
  block.add_view({static_cast<const std::byte*>(tensor.data()), tensor.bytes()});
  return {{"dtype", dtype_name(tensor.dtype())}, {"shape", tensor.shape()}, {"offset", offset}};
}

namespace {

// {"kind": value}: JSON alone cannot tell 1 from 1.0 or an empty list of ints from one of floats.
json attribute_json(const Attribute& attribute, Pieces& block) {
  return std::visit(
      [&]<typename T>(const T& value) -> json {
        if constexpr (std::is_same_v<T, int64_t>) return {{"int", value}};
        if constexpr (std::is_same_v<T, double>) {
          // Infinities are legal attributes and have no JSON number.
          return {{"float", fmt::format("{:a}", value)}};
        }
        if constexpr (std::is_same_v<T, std::string>) {
          return {{"string", std::vector<uint8_t>(value.begin(), value.end())}};
        }
        if constexpr (std::is_same_v<T, std::vector<int64_t>>) return {{"ints", value}};
        if constexpr (std::is_same_v<T, std::vector<double>>) {
          std::vector<std::string> texts;
          for (double v : value) texts.push_back(fmt::format("{:a}", v));
          return {{"floats", texts}};
        }
        if constexpr (std::is_same_v<T, std::vector<std::string>>) return {{"strings", value}};
        if constexpr (std::is_same_v<T, Tensor>) return {{"tensor", write_tensor(value, block)}};
      },
      attribute);
}

// For errors. Lists and objects may be nested deeper than dump(), which recurses, survives.
std::string found(const json& j) {
  return j.is_structured() ? std::string("an ") + j.type_name() : j.dump();
}

// JSON converts freely: 1.5, true and 2^64 would all become integers.
int64_t integer(const json& j) {
  const bool fits = j.is_number_unsigned() ? j.get<uint64_t>() <= INT64_MAX : j.is_number_integer();
  if (!fits) throw_invalid("expected an integer, found {}", found(j));
  return j.get<int64_t>();
}

std::vector<int64_t> integers(const json& j) {
  if (!j.is_array()) throw_invalid("expected a list of integers, found {}", found(j));
  std::vector<int64_t> list;
  list.reserve(j.size());
  for (const json& item : j) list.push_back(integer(item));
  return list;
}

Shape shape(const json& j) {
  Shape dims = integers(j);
  if (dims.size() > kMaxRank) throw_invalid("a shape has {} dimensions", dims.size());
  element_count(dims);  // refuses negative dimensions and overflow
  return dims;
}

class Reader {
 public:
  Reader(std::span<const std::byte> block, std::shared_ptr<const void> owner,
         const std::string& file)
      : block_(block), owner_(std::move(owner)), file_(file) {}

  [[noreturn]] void fail(const std::string& problem) const {
    throw FormatError(file_, -1, "graph: " + problem);
  }

  Tensor tensor(const json& j) const {
    const DType dtype = parse_dtype(j.at("dtype").get<std::string>());
    Shape dims = shape(j.at("shape"));
    const auto offset = static_cast<uint64_t>(integer(j.at("offset")));
    const uint64_t bytes = static_cast<uint64_t>(element_count(dims)) * dtype_bytes(dtype);
    if (offset % kAlignment != 0 || offset > block_.size() || bytes > block_.size() - offset) {
      fail(fmt::format("a constant of {} bytes at {} lies outside the data", bytes, offset));
    }
    const auto data = block_.subspan(offset, bytes);
    const auto is_bool = [](std::byte b) { return b <= std::byte{1}; };
    if (dtype == DType::kBool && !std::all_of(data.begin(), data.end(), is_bool)) {
      fail(fmt::format("a bool constant at {} holds something other than 0 and 1", offset));
    }
    return Tensor(dtype, std::move(dims), data.data(), owner_);
  }

  // "0x1.8p+1", "-inf": what {:a} writes, whatever the locale.
  double number(const json& j) const {
    const auto text = j.get<std::string>();
    std::string_view digits = text;
    const bool negative = digits.starts_with('-');
    if (negative) digits.remove_prefix(1);
    if (digits.starts_with("0x")) digits.remove_prefix(2);
    double magnitude = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] =
        std::from_chars(digits.data(), end, magnitude, std::chars_format::hex);
    if (error != std::errc{} || stop != end) fail(fmt::format("'{}' is no number", text));
    return negative ? -magnitude : magnitude;
  }

  Attribute attribute(const json& j) const {
    if (!j.is_object() || j.size() != 1) fail("an attribute is malformed");
    const std::string& kind = j.begin().key();
    const json& value = j.begin().value();
    if (kind == "int") return integer(value);
    if (kind == "float") return number(value);
    if (kind == "string") {
      std::string text;
      for (int64_t byte : integers(value)) {
        if (byte < 0 || byte > 255) fail(fmt::format("{} is no byte of a text", byte));
        text += static_cast<char>(byte);
      }
      return text;
    }
    if (kind == "ints") return integers(value);
    if (kind == "floats") {
      std::vector<double> numbers;
      for (const auto& text : value) numbers.push_back(number(text));
      return numbers;
    }
    if (kind == "strings") return value.get<std::vector<std::string>>();
    if (kind == "tensor") return tensor(value);
    fail(fmt::format("unknown attribute kind '{}'", kind));
  }

  std::vector<ValueId> ids(const json& j, size_t count) const {
    std::vector<ValueId> out;
    for (int64_t id : integers(j)) {
      if (id < kNone || id >= static_cast<int64_t>(count)) {
        fail(fmt::format("value {} does not exist", id));
      }
      out.push_back(static_cast<ValueId>(id));
    }
    return out;
  }

 private:
  std::span<const std::byte> block_;
  std::shared_ptr<const void> owner_;
  const std::string& file_;
};

void require_present(const std::vector<ValueId>& ids, const Reader& reader) {
  for (ValueId id : ids) {
    if (id == kNone) reader.fail("an input or output of the graph is absent");
  }
}

Graph parse(const json& j, const Reader& reader) {
  Graph graph;
  graph.name = j.at("name").get<std::string>();
  for (const json& v : j.at("values")) {
    Value value{.name = v.at("name").get<std::string>(),
                .dtype = parse_dtype(v.at("dtype").get<std::string>()),
                .shape = shape(v.at("shape"))};
    if (v.contains("constant")) value.constant = reader.tensor(v.at("constant"));
    graph.values.push_back(std::move(value));
  }
  const size_t count = graph.values.size();
  graph.inputs = reader.ids(j.at("inputs"), count);
  graph.outputs = reader.ids(j.at("outputs"), count);
  require_present(graph.inputs, reader);
  require_present(graph.outputs, reader);
  for (const json& n : j.at("nodes")) {
    const auto op = n.at("op").get<std::string>();
    Node node{.op = find_operator(op),
              .name = n.at("name").get<std::string>(),
              .inputs = reader.ids(n.at("inputs"), count),
              .outputs = reader.ids(n.at("outputs"), count)};
    if (node.op == nullptr) reader.fail(fmt::format("unknown operator '{}'", op));
    for (const auto& [name, value] : n.at("attributes").items()) {
      node.attributes.set(name, reader.attribute(value));
    }
    graph.nodes.push_back(std::move(node));
  }
  return graph;
}

}  // namespace

json write_graph(const Graph& graph, Pieces& block) {
  json values = json::array(), nodes = json::array();
  for (const Value& value : graph.values) {
    check_interrupt();
    json v{{"name", value.name}, {"dtype", dtype_name(value.dtype)}, {"shape", *value.shape}};
    if (value.is_constant()) v["constant"] = write_tensor(value.constant, block);
    values.push_back(std::move(v));
  }
  for (const Node& node : graph.nodes) {
    check_interrupt();
    json attributes = json::object();
    for (const auto& [name, value] : node.attributes.all()) {
      attributes[name] = attribute_json(value, block);
    }
    nodes.push_back({{"op", node.op->name},
                     {"name", node.name},
                     {"inputs", node.inputs},
                     {"outputs", node.outputs},
                     {"attributes", std::move(attributes)}});
  }
  return {{"name", graph.name},
          {"inputs", graph.inputs},
          {"outputs", graph.outputs},
          {"values", std::move(values)},
          {"nodes", std::move(nodes)}};
}

Tensor read_tensor(const json& description, std::span<const std::byte> block,
                   std::shared_ptr<const void> owner, const std::string& file) {
  return Reader(block, std::move(owner), file).tensor(description);
}

Graph read_graph(const json& description, std::span<const std::byte> block,
                 std::shared_ptr<const void> owner, const std::string& file) {
  const Reader reader(block, std::move(owner), file);
  try {
    Graph graph = parse(description, reader);
    verify(graph);
    // Inference checks what the kernels rely on: declared shapes are not taken on trust.
    Graph inferred = graph;
    infer(inferred);
    for (size_t id = 0; id < graph.values.size(); ++id) {
      if (*inferred.values[id].shape != *graph.values[id].shape ||
          inferred.values[id].dtype != graph.values[id].dtype) {
        reader.fail(fmt::format("value {} is declared as {} but has shape {}",
                                graph.values[id].name, shape_text(*graph.values[id].shape),
                                shape_text(*inferred.values[id].shape)));
      }
    }
    return graph;
  } catch (const FormatError&) {
    throw;
  } catch (const std::exception& error) {
    // JSON that lacks a field, a type name that does not exist, a node that does not type-check.
    throw FormatError(file, -1, std::string("graph: ") + error.what());
  }
}

}  // namespace stretto::ir
