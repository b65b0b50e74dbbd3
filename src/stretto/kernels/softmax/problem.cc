#include "stretto/kernels/softmax/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {

std::string problem_key(const SoftmaxProblem& p) {
  return fmt::format("{}softmax {}x{}x{} {}", p.log ? "log_" : "", p.outer, p.axis, p.inner,
                     target_text(p.target));
}

Signature problem_signature(const SoftmaxProblem& p) {
  const Shape shape{p.outer, p.axis, p.inner};
  return {.inputs = {{.name = "x", .shape = shape}},
          .constants = {},
          .outputs = {{.name = "y", .shape = shape}}};
}

// The exponential counted as ten operations, the rest as one each.
double problem_flops(const SoftmaxProblem& p) { return 14.0 * p.outer * p.axis * p.inner; }

}  // namespace stretto::kernels
