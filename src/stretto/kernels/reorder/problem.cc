#include "stretto/kernels/reorder/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {

std::string problem_key(const ReorderProblem& p) {
  return fmt::format("reorder {}x{}x{}x{} {}>{} {}", p.n, p.c, p.h, p.w, layout_name(p.from),
                     layout_name(p.to), target_text(p.target));
}

Signature problem_signature(const ReorderProblem& p) {
  const Shape shape{p.n, p.c, p.h, p.w};
  return {.inputs = {{.name = "x", .shape = shape, .layout = p.from}},
          .constants = {},
          .outputs = {{.name = "y", .shape = shape, .layout = p.to}}};
}

double problem_flops(const ReorderProblem&) { return 0; }

}  // namespace stretto::kernels
