#include "stretto/kernels/cumsum/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {

std::string problem_key(const CumSumProblem& p) {
  return fmt::format("{} {}x[{}]x{} {}{}{} {}", p.product ? "cumprod" : "cumsum", p.outer, p.axis,
                     p.inner, dtype_name(p.dtype), p.exclusive ? " exclusive" : "",
                     p.reverse ? " reverse" : "", target_text(p.target));
}

Signature problem_signature(const CumSumProblem& p) {
  const Shape shape{p.outer, p.axis, p.inner};
  return {.inputs = {{.name = "x", .dtype = p.dtype, .shape = shape}},
          .constants = {},
          .outputs = {{.name = "y", .dtype = p.dtype, .shape = shape}}};
}

double problem_flops(const CumSumProblem& p) {
  return static_cast<double>(p.outer) * static_cast<double>(p.axis) * static_cast<double>(p.inner);
}

}  // namespace stretto::kernels
