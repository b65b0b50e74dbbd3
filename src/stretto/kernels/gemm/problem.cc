#include "stretto/kernels/gemm/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {

std::string problem_key(const GemmProblem& p) {
  return fmt::format("gemm {}x{}x{}{}{} {}", p.m, p.k, p.n, p.transposed ? " nk" : "",
                     epilogue_text(p.epilogue), target_text(p.target));
}

std::string weights_key(GemmProblem p) {
  p.target.threads = 1;
  p.target.panel_width = 0;
  p.m = 0;
  p.epilogue = {.bias = p.epilogue.bias};
  return problem_key(p);
}

Signature problem_signature(const GemmProblem& p) {
  Signature s;
  s.inputs.push_back({.name = "x", .shape = {p.m, p.k}});
  s.constants.push_back(
      {.name = "weight", .shape = p.transposed ? Shape{p.n, p.k} : Shape{p.k, p.n}});
  if (p.epilogue.bias) s.constants.push_back({.name = "bias", .shape = {p.n}});
  if (p.epilogue.residual) s.inputs.push_back({.name = "residual", .shape = {p.m, p.n}});
  s.outputs.push_back({.name = "y", .shape = {p.m, p.n}});
  return s;
}

double problem_flops(const GemmProblem& p) { return 2.0 * p.m * p.n * p.k; }

}  // namespace stretto::kernels
