// Looks at every operator of a model before anything is built, so that one error can name all that
// is missing.
#pragma once

#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include "stretto/import/onnx/reader.h"

namespace stretto::onnx {

// The functions of a model by domain, name and overload.
class FunctionIndex {
 public:
  FunctionIndex(const Source& source, const std::vector<WireFunction>& functions);
  // The function that `node` calls; null when it is an operator.
  const WireFunction* find(const WireNode& node) const;

 private:
  std::map<std::tuple<std::string_view, std::string_view, std::string_view>, const WireFunction*>
      functions_;
};

// Throws Unsupported with a line for each operator that is neither supported nor a function: how
// many nodes, the first one's name, and why where that helps. Bodies of called functions count
// once; branches of `If` are looked at when one of them is taken.
void check_operators(const Source& source, const std::vector<WireNode>& nodes, const Opsets& opsets,
                     const FunctionIndex& functions);

// Whether a node can be part of a graph, if all that it needs is known.
bool is_straight(const WireNode& node, int64_t opset);
// Whether it is, or may be, an operator that runs between the stages of a model (ir/host).
bool is_between_stages(const WireNode& node);

// The version of the default domain that `opsets` has, else `fallback`.
int64_t default_opset(const Opsets& opsets, int64_t fallback);

}  // namespace stretto::onnx
