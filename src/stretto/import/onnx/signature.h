// The inputs, outputs and attributes of ONNX's operators as the newest opset has them: for callers
// who give them by position and by name instead of in a model.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/ir/operator.h"

namespace stretto::onnx {

struct SignaturePort {
  std::string name;
  ir::Arity arity = ir::Arity::kRequired;
};

struct SignatureAttribute {
  std::string name;
  std::optional<ir::AttributeKind> kind;  // none: a graph, or something else that is not plain
  bool required = false;
  std::string fallback;  // as text, lists in brackets; empty: none, or it depends on the inputs
};

struct Signature {
  std::string_view domain, op;
  std::vector<SignaturePort> inputs, outputs;
  std::vector<SignatureAttribute> attributes;  // by name
};

// Those of ONNX's domains that Stretto runs from plain values, by name; no two have one name.
// Operators that take graphs, strings or sequences are not among them.
std::span<const Signature> signatures();
const Signature* find_signature(std::string_view op);  // null when there is none

// Where the input or attribute of that name stands; -1 when there is none. Names of a variadic port
// do not count.
int find_input(const Signature& signature, std::string_view name);
int find_attribute(const Signature& signature, std::string_view name);

// Outputs of a call that does not say how many it wants: the required ones, at least one. Of an
// operator with any number of outputs it is what `attributes` says of `num_outputs`, else 0.
int default_outputs(const Signature& signature, const ir::Attributes& attributes);

}  // namespace stretto::onnx
