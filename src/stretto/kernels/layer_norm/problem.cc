#include "stretto/kernels/layer_norm/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {

std::string problem_key(const LayerNormProblem& p) {
  return fmt::format("{}_norm {}x{} eps{}{}{}{}{} {}", p.rms ? "rms" : "layer", p.m, p.n, p.epsilon,
                     p.scale ? "+scale" : "", p.bias ? "+bias" : "", p.residual ? "+res" : "",
                     p.sum_output ? "+sum" : "", target_text(p.target));
}

std::string weights_key(LayerNormProblem p) {
  p.target.threads = 1;
  p.target.panel_width = 0;
  p.m = 0;
  return problem_key(p);
}

Signature problem_signature(const LayerNormProblem& p) {
  Signature s;
  const Shape shape{p.m, p.n};
  s.inputs.push_back({.name = "x", .shape = shape});
  if (p.residual) s.inputs.push_back({.name = "residual", .shape = shape});
  if (p.scale) s.constants.push_back({.name = "scale", .shape = {p.n}});
  if (p.bias) s.constants.push_back({.name = "bias", .shape = {p.n}});
  s.outputs.push_back({.name = "y", .shape = shape});
  if (p.sum_output) s.outputs.push_back({.name = "sum", .shape = shape});
  return s;
}

double problem_flops(const LayerNormProblem& p) { return 8.0 * p.m * p.n; }

}  // namespace stretto::kernels
