#include "stretto/kernels/gather/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {

std::string problem_key(const GatherProblem& p) {
  return fmt::format("gather {}x[{}]x{} {} by {} {} {}", p.outer, p.axis, p.inner,
                     dtype_name(p.dtype), p.indices, dtype_name(p.index_dtype),
                     target_text(p.target));
}

Signature problem_signature(const GatherProblem& p) {
  return {.inputs = {{.name = "x", .dtype = p.dtype, .shape = {p.outer, p.axis, p.inner}},
                     {.name = "index", .dtype = p.index_dtype, .shape = {p.indices}}},
          .constants = {},
          .outputs = {{.name = "y", .dtype = p.dtype, .shape = {p.outer, p.indices, p.inner}}}};
}

double problem_flops(const GatherProblem&) { return 0; }

}  // namespace stretto::kernels
