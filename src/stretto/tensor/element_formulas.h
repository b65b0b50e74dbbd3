// The rows of elementwise.inc as types, so that loops over elements can inline their formulas:
// elements::Exp::apply(x, 0, 0, 0, 0) is e^x. elementwise.h has the same rows as a list.
#pragma once

#include <limits>
#include <string_view>

#include "stretto/tensor/formulas.h"

namespace stretto::elements {

using namespace formulas;  // NOLINT: what elementwise.inc calls

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// kAlpha and kBeta are the defaults of the numbers. Not every formula needs all arguments. value()
// is a bool where the formula says what is true.
#define STRETTO_ELEMENT_TYPE(name, numbers, alpha_default, beta_default, formula)  \
  struct name {                                                                    \
    static constexpr std::string_view kName = #name;                               \
    static constexpr int kNumbers = numbers;                                       \
    static constexpr double kAlpha = alpha_default, kBeta = beta_default;          \
    static auto value([[maybe_unused]] double a, [[maybe_unused]] double b,        \
                      [[maybe_unused]] double c, [[maybe_unused]] double alpha,    \
                      [[maybe_unused]] double beta) {                              \
      return formula;                                                              \
    }                                                                              \
    static double apply(double a, double b, double c, double alpha, double beta) { \
      return static_cast<double>(value(a, b, c, alpha, beta));                     \
    }                                                                              \
  };
#define STRETTO_ELEMENT(name, operands, use, formula) STRETTO_ELEMENT_TYPE(name, 0, 0, 0, formula)
#define STRETTO_ACTIVATION(name, text, numbers, alpha, beta, use, formula) \
  STRETTO_ELEMENT_TYPE(name, numbers, alpha, beta, formula)
#include "stretto/tensor/elementwise.inc"
#undef STRETTO_ELEMENT_TYPE

}  // namespace stretto::elements
