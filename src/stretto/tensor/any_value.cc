#include "stretto/tensor/any_value.h"

#include <fmt/format.h>

namespace stretto {

AnyValue::AnyValue(Strings strings)
    : content_(std::make_shared<const Strings>(std::move(strings))) {}
AnyValue::AnyValue(Sequence sequence)
    : content_(std::make_shared<const Sequence>(std::move(sequence))) {}
AnyValue::AnyValue(Map map) : content_(std::make_shared<const Map>(std::move(map))) {}

const Tensor& AnyValue::tensor() const {
  if (const auto* found = std::get_if<Tensor>(&content_)) return *found;
  throw_invalid("expected a tensor of numbers, got {}", kind());
}

const Strings& AnyValue::strings() const {
  if (const auto* found = std::get_if<SharedStrings>(&content_)) return **found;
  throw_invalid("expected strings, got {}", kind());
}

const Sequence& AnyValue::sequence() const {
  if (const auto* found = std::get_if<SharedSequence>(&content_)) return **found;
  throw_invalid("expected a sequence, got {}", kind());
}

const Map& AnyValue::map() const {
  if (const auto* found = std::get_if<SharedMap>(&content_)) return **found;
  throw_invalid("expected a map, got {}", kind());
}

std::string AnyValue::kind() const {
  if (is_none()) return "nothing";
  if (is_strings()) return fmt::format("strings of shape {}", shape_text(strings().shape));
  if (is_sequence()) return fmt::format("a sequence of {}", sequence().size());
  if (is_map()) return fmt::format("a map of {}", map().values.size());
  return fmt::format("a {} tensor of shape {}", dtype_name(tensor().dtype()),
                     shape_text(tensor().shape()));
}

}  // namespace stretto
