// What a model may take and give: mostly a tensor, but ONNX also has tensors of strings, sequences,
// and optional values that are not there.
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

class AnyValue;
using Sequence = std::vector<AnyValue>;

// One of these. Copies share the content, which nobody changes.
class AnyValue {
 public:
  AnyValue() = default;  // not there: an optional value without one
  AnyValue(Tensor tensor) : content_(std::move(tensor)) {}
  AnyValue(Strings strings);
  AnyValue(Sequence sequence);

  bool is_none() const { return std::holds_alternative<std::monostate>(content_); }
  bool is_tensor() const { return std::holds_alternative<Tensor>(content_); }
  bool is_strings() const { return std::holds_alternative<SharedStrings>(content_); }
  bool is_sequence() const { return std::holds_alternative<SharedSequence>(content_); }

  // Throw InvalidArgument saying what it is instead.
  const Tensor& tensor() const;
  const Strings& strings() const;
  const Sequence& sequence() const;

  std::string kind() const;  // for people: "a float32 tensor of shape 2x3", "a sequence of 2"

 private:
  using SharedStrings = std::shared_ptr<const Strings>;
  using SharedSequence = std::shared_ptr<const Sequence>;
  std::variant<std::monostate, Tensor, SharedStrings, SharedSequence> content_;
};

}  // namespace stretto
