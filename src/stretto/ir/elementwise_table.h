// The operations a stretto.Elementwise program may use (see fused.h), one row each.
#pragma once

#include <span>
#include <string_view>

namespace stretto::ir {

struct ElementwiseFunction {
  std::string_view name;
  int arity;                                 // 1 to 3
  double (*apply)(const double* arguments);  // truth is 1, falsehood 0
};

std::span<const ElementwiseFunction> elementwise_functions();
const ElementwiseFunction* find_elementwise_function(std::string_view name);  // null when unknown

}  // namespace stretto::ir
