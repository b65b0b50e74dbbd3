#include "stretto/kernels/matmul_integer/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {

std::string problem_key(const MatmulIntegerProblem& p) {
  return fmt::format("matmul_integer {}x{}x{} {}{}{}{} {}", p.m, p.k, p.n,
                     p.is_signed ? "int8" : "uint8", p.zero ? " zero" : "",
                     p.scale_per_column ? " scales" : "", p.bias ? " bias" : "",
                     target_text(p.target));
}

std::string weights_key(MatmulIntegerProblem p) {
  p.target.threads = 1;
  p.target.panel_width = 0;
  p.m = 0;
  p.is_signed = p.zero = p.scale_per_column = 0;
  return problem_key(p);
}

Signature problem_signature(const MatmulIntegerProblem& p) {
  const DType dtype = p.is_signed ? DType::kInt8 : DType::kUInt8;
  Signature s;
  s.inputs.push_back({.name = "x", .dtype = dtype, .shape = {p.m, p.k}});
  s.inputs.push_back({.name = "scale", .shape = p.scale_per_column ? Shape{p.n} : Shape{}});
  if (p.zero) s.inputs.push_back({.name = "zero_point", .dtype = dtype, .shape = {}});
  s.constants.push_back({.name = "weight", .dtype = DType::kInt8, .shape = {p.k, p.n}});
  if (p.bias) s.constants.push_back({.name = "bias", .shape = {p.n}});
  s.outputs.push_back({.name = "y", .shape = {p.m, p.n}});
  return s;
}

double problem_flops(const MatmulIntegerProblem& p) { return 2.0 * p.m * p.n * p.k; }

}  // namespace stretto::kernels
