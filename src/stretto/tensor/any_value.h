// What a model may take and give: mostly a tensor, but ONNX also has tensors of strings, sequences,
// maps, and optional values that are not there.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stretto/tensor/tensor.h"

namespace stretto {

// A tensor of strings, row-major.
struct Strings {
  Shape shape;
  std::vector<std::string> values;
};

// The keys of a map, of one kind; maps of the rows of a batch share them.
struct MapKeys {
  std::vector<int64_t> integers;
  std::vector<std::string> texts;

  size_t size() const { return texts.empty() ? integers.size() : texts.size(); }
};

// From labels to numbers, as classifiers of ONNX may give one per row.
struct Map {
  std::shared_ptr<const MapKeys> keys;  // not null
  std::vector<float> values;            // as many
};

class AnyValue;
using Sequence = std::vector<AnyValue>;

// One of these. Copies share the content, which nobody changes.
class AnyValue {
 public:
  AnyValue() = default;  // not there: an optional value without one
  AnyValue(Tensor tensor) : content_(std::move(tensor)) {}
  AnyValue(Strings strings);
  AnyValue(Sequence sequence);
  AnyValue(Map map);

  bool is_none() const { return std::holds_alternative<std::monostate>(content_); }
  bool is_tensor() const { return std::holds_alternative<Tensor>(content_); }
  bool is_strings() const { return std::holds_alternative<SharedStrings>(content_); }
  bool is_sequence() const { return std::holds_alternative<SharedSequence>(content_); }
  bool is_map() const { return std::holds_alternative<SharedMap>(content_); }

  // Throw InvalidArgument saying what it is instead.
  const Tensor& tensor() const;
  const Strings& strings() const;
  const Sequence& sequence() const;
  const Map& map() const;

  std::string kind() const;  // for people: "a float32 tensor of shape 2x3", "a sequence of 2"

 private:
  using SharedStrings = std::shared_ptr<const Strings>;
  using SharedSequence = std::shared_ptr<const Sequence>;
  using SharedMap = std::shared_ptr<const Map>;
  std::variant<std::monostate, Tensor, SharedStrings, SharedSequence, SharedMap> content_;
};

}  // namespace stretto
