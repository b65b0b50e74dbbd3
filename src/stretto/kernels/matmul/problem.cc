#include "stretto/kernels/matmul/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {

int64_t matmul_operand(const MatmulProblem& p, const uint8_t* broadcast, int64_t index) {
  int64_t operand = 0, stride = 1;
  for (int i = p.rank - 1; i >= 0; --i) {
    const int64_t at = index % p.batch[i];
    index /= p.batch[i];
    if (broadcast[i]) continue;
    operand += at * stride;
    stride *= p.batch[i];
  }
  return operand;
}

namespace {

std::string batch_text(const MatmulProblem& p) {
  std::string text;
  for (int i = 0; i < p.rank; ++i) {
    text +=
        fmt::format("{}{}{}", p.batch[i], p.broadcast_x[i] ? "x" : "", p.broadcast_z[i] ? "z" : "");
    text += ' ';
  }
  return text;
}

Shape shape_of(const MatmulProblem& p, const uint8_t* broadcast, int64_t rows, int64_t columns) {
  Shape shape;
  for (int i = 0; i < p.rank; ++i) {
    shape.push_back(broadcast != nullptr && broadcast[i] ? 1 : p.batch[i]);
  }
  shape.push_back(rows);
  shape.push_back(columns);
  return shape;
}

}  // namespace

std::string problem_key(const MatmulProblem& p) {
  return fmt::format("matmul {}{}x{}x{}{}{} {}", batch_text(p), p.m, p.k, p.n,
                     p.transposed ? " nk" : "", p.alpha != 1 ? fmt::format("*{}", p.alpha) : "",
                     target_text(p.target));
}

Signature problem_signature(const MatmulProblem& p) {
  Signature s;
  s.inputs.push_back({.name = "x", .shape = shape_of(p, p.broadcast_x, p.m, p.k)});
  s.inputs.push_back({.name = "z",
                      .shape = p.transposed ? shape_of(p, p.broadcast_z, p.n, p.k)
                                            : shape_of(p, p.broadcast_z, p.k, p.n)});
  s.outputs.push_back({.name = "y", .shape = shape_of(p, nullptr, p.m, p.n)});
  return s;
}

double problem_flops(const MatmulProblem& p) {
  return 2.0 * static_cast<double>(p.batches()) * p.m * p.n * p.k;
}

}  // namespace stretto::kernels
