#include "stretto/kernels/fourier/problem.h"

#include <fmt/format.h>

#include <cmath>

namespace stretto::kernels {
namespace {

std::string kind(const FourierProblem& p) {
  return fmt::format("{}fourier {}>{} {}", p.inverse ? "inverse " : "", p.parts, p.kept_parts,
                     dtype_name(p.dtype));
}

}  // namespace

std::string problem_key(const FourierProblem& p) {
  return fmt::format("{} {}x{}x{} frames {}/{}{} n{} k{} {}", kind(p), p.outer, p.size, p.inner,
                     p.frames, p.step, p.window ? " window" : "", p.length, p.kept,
                     target_text(p.target));
}

Signature problem_signature(const FourierProblem& p) {
  Signature s;
  s.inputs.push_back({.name = "x", .dtype = p.dtype, .shape = {p.outer, p.size, p.inner, p.parts}});
  if (p.window) s.inputs.push_back({.name = "window", .dtype = p.dtype, .shape = {p.length}});
  s.outputs.push_back(
      {.name = "y", .dtype = p.dtype, .shape = {p.outer, p.frames, p.kept, p.inner, p.kept_parts}});
  return s;
}

// By the usual count of fast transforms, half of it for real numbers.
double problem_flops(const FourierProblem& p) {
  const auto length = static_cast<double>(p.length);
  const bool real = p.parts == 1 || p.kept_parts == 1;
  return (real ? 2.5 : 5.0) * static_cast<double>(p.rows()) * length * std::log2(length + 1);
}

// The tables depend on the number of rows too, by the algorithm.
std::string weights_key(const FourierProblem& p) { return problem_key(p); }

}  // namespace stretto::kernels
