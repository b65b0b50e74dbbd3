// What models must observe beyond the operator table's types: shown by `stretto operators` and in
// the docs. One row per limit, in limits.cc.
#pragma once

#include <span>
#include <string_view>

namespace stretto::ir {

struct OperatorLimit {
  std::string_view op;    // as ONNX names it
  std::string_view text;  // "in stages where shape depends on data"
};

std::span<const OperatorLimit> operator_limits();

}  // namespace stretto::ir
