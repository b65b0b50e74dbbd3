#include "stretto/kernels/global_pool/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {

std::string problem_key(const GlobalPoolProblem& p) {
  return fmt::format("global_pool {} {}x{}x{}x{} {} {}",
                     p.kind == Pooling::kMax ? "max" : "average", p.n, p.c, p.h, p.w,
                     layout_name(p.layout), target_text(p.target));
}

Signature problem_signature(const GlobalPoolProblem& p) {
  return {.inputs = {{.name = "x", .shape = {p.n, p.c, p.h, p.w}, .layout = p.layout}},
          .constants = {},
          .outputs = {{.name = "y", .shape = {p.n, p.c, 1, 1}, .layout = p.layout}}};
}

double problem_flops(const GlobalPoolProblem& p) { return 1.0 * p.n * p.c * p.h * p.w; }

}  // namespace stretto::kernels
