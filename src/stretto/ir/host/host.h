// Operators on what no graph can hold: sequences, optional values and strings; and those whose
// results have as many rows as their values say. They run between the stages of a model
// (docs/design/control_flow.md), as plain functions on values.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/ir/graph.h"
#include "stretto/tensor/any_value.h"

namespace stretto::ir {

struct HostCall {
  std::string op, name;  // of the node, for errors
  Attributes attributes;
  std::vector<AnyValue> inputs;   // without a value where absent
  std::vector<AnyValue> outputs;  // to be set; as many as the node has

  bool has_input(size_t i) const { return i < inputs.size() && !inputs[i].is_none(); }
  // Throw InvalidArgument naming the node and the input.
  const AnyValue& input(size_t i) const;
  const Tensor& tensor(size_t i) const;
  const Strings& strings(size_t i) const;
  const Sequence& sequence(size_t i) const;
  int64_t integer(size_t i, std::string_view what) const;  // of one element
  [[noreturn]] void fail(std::string_view problem) const;
};

struct HostOperator {
  std::string_view domain;  // "" is ONNX's own
  std::string_view op;
  void (*run)(HostCall&);
};

// All of them, by domain and name. Some have names of operators of the graph as well, and are used
// where an input is no tensor.
std::span<const HostOperator> host_operators();
const HostOperator* find_host_operator(std::string_view domain, std::string_view op);

// Operators of the graph that only move or compare elements, so that they also work on strings:
// on their places in a sorted list.
bool works_on_strings(std::string_view domain, std::string_view op);

// Parts of tensors. `axis` is not negative; parts along axis 0 share the memory of `x`.
Tensor part_of(const Tensor& x, int64_t axis, int64_t begin, int64_t end);
Tensor joined(std::span<const Tensor> parts, int64_t axis);
Tensor without_axis(const Tensor& x, int64_t axis);  // of size 1
Tensor with_axis(const Tensor& x, int64_t axis);

// sequences.cc
void host_sequence_construct(HostCall& call);
void host_sequence_empty(HostCall& call);
void host_sequence_at(HostCall& call);
void host_sequence_insert(HostCall& call);
void host_sequence_erase(HostCall& call);
void host_sequence_length(HostCall& call);
void host_split_to_sequence(HostCall& call);
void host_concat_from_sequence(HostCall& call);
void host_optional(HostCall& call);
void host_optional_has_element(HostCall& call);
void host_optional_get_element(HostCall& call);
void host_identity(HostCall& call);

// strings.cc
void host_string_concat(HostCall& call);
void host_string_split(HostCall& call);
void host_string_normalizer(HostCall& call);
void host_regex_full_match(HostCall& call);
void host_cast_strings(HostCall& call);
void host_shape_of_strings(HostCall& call);
void host_size_of_strings(HostCall& call);

// detection.cc
void host_non_max_suppression(HostCall& call);

// categories.cc
void host_category_mapper(HostCall& call);
void host_one_hot_encoder(HostCall& call);
void host_zip_map(HostCall& call);

// label_encoder.cc
void host_label_encoder(HostCall& call);

}  // namespace stretto::ir
