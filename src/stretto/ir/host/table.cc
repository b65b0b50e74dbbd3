#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/ir/host/host.h"

namespace stretto::ir {

std::span<const HostOperator> host_operators() {
  static constexpr HostOperator kRows[] = {
      {"", "Cast", host_cast_strings},
      {"", "ConcatFromSequence", host_concat_from_sequence},
      {"", "Identity", host_identity},
      {"", "NonMaxSuppression", host_non_max_suppression},
      {"", "Optional", host_optional},
      {"", "OptionalGetElement", host_optional_get_element},
      {"", "OptionalHasElement", host_optional_has_element},
      {"", "RegexFullMatch", host_regex_full_match},
      {"", "SequenceAt", host_sequence_at},
      {"", "SequenceConstruct", host_sequence_construct},
      {"", "SequenceEmpty", host_sequence_empty},
      {"", "SequenceErase", host_sequence_erase},
      {"", "SequenceInsert", host_sequence_insert},
      {"", "SequenceLength", host_sequence_length},
      {"", "Shape", host_shape_of_strings},
      {"", "Size", host_size_of_strings},
      {"", "SplitToSequence", host_split_to_sequence},
      {"", "StringConcat", host_string_concat},
      {"", "StringNormalizer", host_string_normalizer},
      {"", "StringSplit", host_string_split},
      {"ai.onnx.ml", "CategoryMapper", host_category_mapper},
      {"ai.onnx.ml", "LabelEncoder", host_label_encoder},
      {"ai.onnx.ml", "OneHotEncoder", host_one_hot_encoder},
      {"ai.onnx.ml", "ZipMap", host_zip_map},
  };
  return kRows;
}

const HostOperator* find_host_operator(std::string_view domain, std::string_view op) {
  const auto rows = host_operators();
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const HostOperator& row) {
    return row.op == op && row.domain == domain;
  });
  return at == rows.end() ? nullptr : &*at;
}

bool works_on_strings(std::string_view domain, std::string_view op) {
  // scikit-learn's classifiers pick their labels by it.
  if (domain == "ai.onnx.ml") return op == "ArrayFeatureExtractor";
  if (!domain.empty()) return false;
  static constexpr std::string_view kOperators[] = {
      "Compress", "Concat",    "Equal",  "Expand",          "Flatten",   "Gather", "GatherElements",
      "GatherND", "Reshape",   "Slice",  "ScatterElements", "ScatterND", "Split",  "Squeeze",
      "Tile",     "Transpose", "Unique", "Unsqueeze",       "Where"};
  return std::find(std::begin(kOperators), std::end(kOperators), op) != std::end(kOperators);
}

void HostCall::fail(std::string_view problem) const {
  throw_invalid("{} \"{}\": {}", op, name, problem);
}

const AnyValue& HostCall::input(size_t i) const {
  if (!has_input(i)) fail(fmt::format("input {} is missing", i));
  return inputs[i];
}

const Tensor& HostCall::tensor(size_t i) const {
  if (!input(i).is_tensor()) {
    fail(fmt::format("input {}: expected a tensor of numbers, got {}", i, inputs[i].kind()));
  }
  return inputs[i].tensor();
}

const Strings& HostCall::strings(size_t i) const {
  if (!input(i).is_strings()) {
    fail(fmt::format("input {}: expected strings, got {}", i, inputs[i].kind()));
  }
  return inputs[i].strings();
}

const Sequence& HostCall::sequence(size_t i) const {
  if (!input(i).is_sequence()) {
    fail(fmt::format("input {}: expected a sequence, got {}", i, inputs[i].kind()));
  }
  return inputs[i].sequence();
}

int64_t HostCall::integer(size_t i, std::string_view what) const {
  const Tensor& one = tensor(i);
  if (one.count() != 1 || !is_integer(one.dtype())) {
    fail(fmt::format("{}: expected one integer, got {}", what, inputs[i].kind()));
  }
  return one.as_int64s()[0];
}

}  // namespace stretto::ir
