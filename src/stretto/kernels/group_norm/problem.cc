#include "stretto/kernels/group_norm/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {

std::string problem_key(const GroupNormProblem& p) {
  return fmt::format("group_norm {}x{}x{} g{} eps{}{}{} {}", p.n, p.c, p.hw, p.groups, p.epsilon,
                     p.scale ? "+scale" : "", p.bias ? "+bias" : "", target_text(p.target));
}

std::string weights_key(GroupNormProblem p) {
  p.target.threads = 1;
  p.target.panel_width = 0;
  p.n = p.hw = 0;
  return problem_key(p);
}

Signature problem_signature(const GroupNormProblem& p) {
  Signature s;
  const Shape shape{p.n, p.c, p.hw};
  s.inputs.push_back({.name = "x", .shape = shape});
  if (p.scale) s.constants.push_back({.name = "scale", .shape = {p.c}});
  if (p.bias) s.constants.push_back({.name = "bias", .shape = {p.c}});
  s.outputs.push_back({.name = "y", .shape = shape});
  return s;
}

double problem_flops(const GroupNormProblem& p) { return 7.0 * p.n * p.c * p.hw; }

}  // namespace stretto::kernels
