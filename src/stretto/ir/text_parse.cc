// One function per construct of the grammar in docs/formats/text.md. Line breaks mean
// nothing: every statement shows where it ends.
#include <charconv>
#include <cstring>
#include <unordered_map>

#include "stretto/base/error.h"
#include "stretto/ir/limits.h"
#include "stretto/ir/operator.h"
#include "stretto/ir/text.h"
#include "stretto/ir/text_lexer.h"
#include "stretto/tensor/narrow.h"

namespace stretto::ir {
namespace {

// One number from the whole of `text`; false when it is none or out of range.
template <typename T>
bool read_number(std::string_view text, T& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty();
}

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  Graph parse() {
    if (!take_word("graph")) fail_at_line(line(), "expected 'graph' and its name, got {}", shown());
    graph_.name = name();
    while (lexer_.peek().kind != Token::Kind::kEnd) {
      if (take_word("input")) {
        input();
      } else if (take_word("constant")) {
        constant();
      } else if (take_word("output")) {
        do {
          graph_.outputs.push_back(use());
        } while (take_mark(','));
      } else {
        node();
      }
    }
    infer(graph_);
    check_declared();
    verify(graph_);
    return std::move(graph_);
  }

 private:
  struct Declared {
    ValueId id;
    DType dtype;
    std::optional<Shape> shape;
    int line;
  };

  int line() const { return lexer_.peek().line; }

  std::string shown() const {
    const Token& token = lexer_.peek();
    return token.kind == Token::Kind::kEnd ? "the end of the text"
                                           : fmt::format("'{}'", token.text);
  }

  bool at_word(std::string_view word) const {
    return lexer_.peek().kind == Token::Kind::kWord && lexer_.peek().text == word;
  }
  bool take_word(std::string_view word) {
    if (!at_word(word)) return false;
    lexer_.take();
    return true;
  }
  bool at_mark(char mark) const {
    return lexer_.peek().kind == Token::Kind::kMark && lexer_.peek().text[0] == mark;
  }
  bool take_mark(char mark) {
    if (!at_mark(mark)) return false;
    lexer_.take();
    return true;
  }
  void expect(char mark) {
    if (!take_mark(mark)) fail_at_line(line(), "expected '{}', got {}", mark, shown());
  }

  std::string name() {
    const Token& token = lexer_.peek();
    if (token.kind != Token::Kind::kWord && token.kind != Token::Kind::kQuoted) {
      fail_at_line(line(), "expected a name, got {}", shown());
    }
    if (token.text.empty()) fail_at_line(line(), "a name may not be empty");
    return lexer_.take().text;
  }

  ValueId define(const std::string& name, int at) {
    const auto id = static_cast<ValueId>(graph_.values.size());
    if (!index_.try_emplace(name, id).second) fail_at_line(at, "{} is already defined", name);
    graph_.values.push_back({.name = name});
    return id;
  }

  ValueId use() {
    const int at = line();
    const std::string wanted = name();
    const auto found = index_.find(wanted);
    if (found == index_.end()) fail_at_line(at, "{} is used before it is made", wanted);
    return found->second;
  }

  DType dtype() {
    const int at = line();
    const std::string wanted = name();
    try {
      return parse_dtype(wanted);
    } catch (const InvalidArgument& error) {
      fail_at_line(at, "{}", error.what());
    }
  }

  Shape shape() {
    const int at = line();
    Shape dims;
    expect('[');
    while (!at_mark(']')) {
      if (at_mark('?')) fail_at_line(line(), "an open dimension: write a number instead of '?'");
      int64_t dim = 0;
      if (!read_number(lexer_.peek().text, dim) || dim < 0) {
        fail_at_line(line(), "expected a dimension, got {}", shown());
      }
      dims.push_back(dim);
      lexer_.take();
      if (!take_mark(',')) break;
    }
    expect(']');
    if (dims.size() > kMaxRank) {
      fail_at_line(at, "{} dimensions, the limit is {}", dims.size(), kMaxRank);
    }
    try {
      element_count(dims);
    } catch (const InvalidArgument& error) {
      fail_at_line(at, "{}", error.what());
    }
    return dims;
  }

  void input() {
    const int at = line();
    const ValueId id = define(name(), at);
    expect(':');
    const DType type = dtype();
    Value& value = graph_.value(id);
    value.dtype = type;
    value.shape = shape();
    graph_.inputs.push_back(id);
  }

  void constant() {
    const int at = line();
    const ValueId id = define(name(), at);
    expect(':');
    const DType type = dtype();
    Shape dims = shape();
    expect('=');
    Value& value = graph_.value(id);
    value.constant = tensor(type, dims);
    value.dtype = type;
    value.shape = std::move(dims);
  }

  void fill_allowed(int64_t count, int at) {
    filled_ += count;
    if (filled_ > kMaxFilledElements) {
      fail_at_line(at, "filled constants may have {} elements altogether", kMaxFilledElements);
    }
  }

  Tensor random(DType type, const Shape& dims, int at) {
    if (!is_float(type))
      fail_at_line(at, "random constants are floating point, not {}", dtype_name(type));
    expect('(');
    uint64_t state = 0;
    if (!read_number(lexer_.peek().text, state))
      fail_at_line(line(), "expected a seed, got {}", shown());
    lexer_.take();
    expect(')');
    fill_allowed(element_count(dims), at);
    Tensor out(DType::kFloat64, dims);
    for (double& value : out.mutable_values<double>()) {
      // SplitMix64 (Steele, Lea, Flood 2014).
      uint64_t bits = state += 0x9e3779b97f4a7c15;
      bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
      bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
      bits ^= bits >> 31;
      value = static_cast<double>(bits >> 11) * 0x1p-52 - 1;
    }
    return out.converted(type);
  }

  Tensor tensor(DType type, const Shape& dims) {
    const int at = line();
    if (take_word("random")) return random(type, dims, at);
    if (at_word("...")) fail_at_line(at, "the elements were left out of this text");
    expect('{');
    const int64_t count = element_count(dims);
    // Grown as elements are read: the text, not the shape, says how much memory is needed.
    std::vector<std::byte> data;
    int64_t given = 0;
    while (!at_mark('}')) {
      if (given == count)
        fail_at_line(line(), "more elements than the {} of {}", count, shape_text(dims));
      element(type, data);
      ++given;
      if (!take_mark(',')) break;
    }
    const bool splat = given == 1 && take_word("...");
    expect('}');
    if (!splat && given != count) {
      fail_at_line(at, "{} elements for shape {}", given, shape_text(dims));
    }
    if (splat) fill_allowed(count, at);
    Tensor out(type, dims);
    auto* to = static_cast<std::byte*>(out.mutable_data());
    if (!splat) {
      if (!data.empty()) std::memcpy(to, data.data(), data.size());
    } else {
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * data.size(), data.data(), data.size());
    }
    return out;
  }

  template <typename T>
  void number_element(std::vector<std::byte>& data) {
    T value{};
    if (!read_number(lexer_.peek().text, value)) {
      fail_at_line(line(), "expected {}, got {}", dtype_name(kDTypeOf<T>), shown());
    }
    put(data, value);
  }

  template <typename T>
  static void put(std::vector<std::byte>& data, T value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    data.insert(data.end(), bytes, bytes + sizeof value);
  }

  void element(DType type, std::vector<std::byte>& data) {
    switch (type) {
      case DType::kFloat32:
        number_element<float>(data);
        break;
      case DType::kFloat64:
        number_element<double>(data);
        break;
      case DType::kFloat16:
      case DType::kBFloat16: {
        float value = 0;
        if (!read_number(lexer_.peek().text, value))
          fail_at_line(line(), "expected a number, got {}", shown());
        put(data, type == DType::kFloat16 ? float_to_half(value) : float_to_bfloat16(value));
        break;
      }
      case DType::kInt8:
        number_element<int8_t>(data);
        break;
      case DType::kInt16:
        number_element<int16_t>(data);
        break;
      case DType::kInt32:
        number_element<int32_t>(data);
        break;
      case DType::kInt64:
        number_element<int64_t>(data);
        break;
      case DType::kUInt8:
        number_element<uint8_t>(data);
        break;
      case DType::kUInt16:
        number_element<uint16_t>(data);
        break;
      case DType::kUInt32:
        number_element<uint32_t>(data);
        break;
      case DType::kUInt64:
        number_element<uint64_t>(data);
        break;
      case DType::kBool:
        if (!at_word("true") && !at_word("false")) {
          fail_at_line(line(), "expected true or false, got {}", shown());
        }
        put(data, static_cast<uint8_t>(at_word("true")));
        break;
      case DType::kUndefined:
        fail_at_line(line(), "a constant needs a type");
      default: {
        float value = 0;
        if (!read_number(lexer_.peek().text, value))
          fail_at_line(line(), "expected a number, got {}", shown());
        data.push_back(*static_cast<const std::byte*>(
            narrowed(Tensor::scalar(value), type, {.saturate = false}).data()));
      }
    }
    lexer_.take();
  }

  // The number that the current word is: an integer when it is written as one.
  std::variant<int64_t, double> number() {
    int64_t integer = 0;
    double real = 0;
    const std::string& text = lexer_.peek().text;
    if (lexer_.peek().kind != Token::Kind::kWord)
      fail_at_line(line(), "expected a value, got {}", shown());
    if (read_number(text, integer)) {
      lexer_.take();
      return integer;
    }
    if (!read_number(text, real)) fail_at_line(line(), "expected a number, got {}", shown());
    lexer_.take();
    return real;
  }

  Attribute attribute() {
    if (lexer_.peek().kind == Token::Kind::kQuoted) return lexer_.take().text;
    if (at_mark('[')) return list();
    for (const std::string_view kind : {"ints", "floats", "strings"}) {
      if (!take_word(kind)) continue;
      expect('[');
      expect(']');
      if (kind == "ints") return std::vector<int64_t>{};
      if (kind == "floats") return std::vector<double>{};
      return std::vector<std::string>{};
    }
    const std::string& text = lexer_.peek().text;
    // "inf" and "nan" are the words that are numbers.
    const bool letter = !text.empty() && text[0] >= 'a' && text[0] <= 'z';
    if (letter && text != "inf" && text != "nan") {
      const DType type = dtype();
      const Shape dims = shape();
      return tensor(type, dims);
    }
    const auto value = number();
    if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
    return std::get<double>(value);
  }

  Attribute list() {
    const int at = line();
    std::vector<std::string> strings;
    std::vector<int64_t> integers;
    std::vector<double> reals;
    bool all_integers = true;
    expect('[');
    while (!at_mark(']')) {
      if (lexer_.peek().kind == Token::Kind::kQuoted) {
        strings.push_back(lexer_.take().text);
      } else {
        const auto value = number();
        const auto* integer = std::get_if<int64_t>(&value);
        all_integers = all_integers && integer != nullptr;
        if (integer != nullptr) integers.push_back(*integer);
        reals.push_back(integer != nullptr ? static_cast<double>(*integer)
                                           : std::get<double>(value));
      }
      if (!take_mark(',')) break;
    }
    expect(']');
    if (strings.empty() && reals.empty()) {
      fail_at_line(at, "an empty list says what it holds: ints[], floats[] or strings[]");
    }
    if (!strings.empty() && !reals.empty())
      fail_at_line(at, "a list holds strings or numbers, not both");
    if (!strings.empty()) return strings;
    if (all_integers) return integers;
    return reals;
  }

  void node() {
    const int at = line();
    Node node;
    do {
      output(node);
    } while (take_mark(','));
    expect('=');
    const std::string op = name();
    node.op = find_operator(op);
    if (node.op == nullptr) fail_at_line(at, "there is no operator {}", op);
    expect('(');
    // Outputs are visible only from the next node on.
    while (!at_mark(')')) {
      if (take_word("_")) {
        node.inputs.push_back(kNone);
      } else {
        const int use_line = line();
        const ValueId id = use();
        for (ValueId own : node.outputs) {
          if (own == id)
            fail_at_line(use_line, "{} is used before it is made", graph_.value(id).name);
        }
        node.inputs.push_back(id);
      }
      if (!take_mark(',')) break;
    }
    expect(')');
    if (take_mark('{')) {
      while (!at_mark('}')) {
        const int attribute_line = line();
        std::string key = name();
        expect('=');
        if (node.attributes.has(key))
          fail_at_line(attribute_line, "attribute {} stands twice", key);
        node.attributes.set(std::move(key), attribute());
        if (!take_mark(',')) break;
      }
      expect('}');
    }
    if (take_word("as")) {
      node.name = name();
    } else {
      node.name = node.outputs[0] == kNone ? op : graph_.value(node.outputs[0]).name;
    }
    graph_.nodes.push_back(std::move(node));
  }

  void output(Node& node) {
    if (take_word("_")) {
      node.outputs.push_back(kNone);
      return;
    }
    const int at = line();
    const ValueId id = define(name(), at);
    node.outputs.push_back(id);
    if (!take_mark(':')) return;
    Declared declared{.id = id, .dtype = dtype(), .shape = std::nullopt, .line = at};
    if (at_mark('[')) declared.shape = shape();
    declared_.push_back(std::move(declared));
  }

  void check_declared() const {
    for (const Declared& declared : declared_) {
      const Value& value = graph_.value(declared.id);
      if (value.dtype != declared.dtype) {
        fail_at_line(declared.line, "{} is declared {}, inference says {}", value.name,
                     dtype_name(declared.dtype), dtype_name(value.dtype));
      }
      if (declared.shape && value.shape != declared.shape) {
        fail_at_line(declared.line, "{} is declared {}, inference says {}", value.name,
                     shape_text(*declared.shape),
                     value.shape ? shape_text(*value.shape) : "nothing");
      }
    }
  }

  Lexer lexer_;
  Graph graph_;
  std::unordered_map<std::string, ValueId> index_;
  std::vector<Declared> declared_;
  int64_t filled_ = 0;
};

}  // namespace

Graph parse_text(std::string_view text) { return Parser(text).parse(); }

}  // namespace stretto::ir
