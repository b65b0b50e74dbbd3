#include "stretto/kernels/attention/problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "stretto/base/error.h"

namespace stretto::kernels {
namespace {

AttentionOperand dense(int32_t input, int64_t heads, int64_t rows, int64_t dim, bool heads_inside) {
  AttentionOperand a{.input = input};
  a.strides[0] = heads * rows * dim;
  a.strides[1] = heads_inside ? dim : rows * dim;
  a.strides[2] = heads_inside ? heads * dim : dim;
  return a;
}

std::string operand_text(const AttentionOperand& a) {
  return fmt::format("{}@{}[{}]", a.input, a.offset, fmt::join(a.strides, ","));
}

}  // namespace

AttentionProblem dense_attention(const Target& target, int64_t batch, int64_t heads, int64_t sq,
                                 int64_t sk, int64_t dim, bool heads_inside) {
  AttentionProblem p{.target = target,
                     .batch = batch,
                     .heads = heads,
                     .kv_heads = heads,
                     .sq = sq,
                     .sk = sk,
                     .dim = dim,
                     .dim_v = dim};
  p.q = dense(0, heads, sq, dim, heads_inside);
  p.k = dense(1, heads, sk, dim, heads_inside);
  p.v = dense(2, heads, sk, dim, heads_inside);
  p.out = dense(0, heads, sq, dim, heads_inside);
  p.out_elements = p.input_elements[0] = batch * heads * sq * dim;
  p.input_elements[1] = p.input_elements[2] = batch * heads * sk * dim;
  p.scale = 1 / std::sqrt(static_cast<float>(dim));
  return p;
}

void add_mask(AttentionProblem& p, const int64_t (&shape)[4]) {
  const int64_t full[4] = {p.batch, p.heads, p.sq, p.sk};
  p.mask = {.input = p.inputs};
  int64_t stride = 1;
  for (int axis = 3; axis >= 0; --axis) {
    if (shape[axis] != full[axis] && shape[axis] != 1) {
      throw_invalid("attention: mask dimension {} is {}, expected {} or 1", axis, shape[axis],
                    full[axis]);
    }
    p.mask.strides[axis] = shape[axis] == 1 ? 0 : stride;
    stride *= shape[axis];
  }
  p.has_mask = 1;
  p.input_elements[p.inputs++] = stride;
}

void make_ragged(AttentionProblem& p, int64_t rows) {
  p.rows = rows;
  for (int i = 0; i < 3; ++i) p.input_elements[i] = rows * p.heads * p.dim;
  p.out_elements = rows * p.heads * p.dim_v;
}

std::string problem_key(const AttentionProblem& p) {
  std::string text =
      fmt::format("attention b{} h{}/{} {}x{} d{}/{} scale{} q{} k{} v{} out{}", p.batch, p.heads,
                  p.kv_heads, p.sq, p.sk, p.dim, p.dim_v, p.scale, operand_text(p.q),
                  operand_text(p.k), operand_text(p.v), operand_text(p.out));
  if (p.has_mask) text += " mask" + operand_text(p.mask);
  if (p.masked_zero) text += " zeros";
  if (p.rows) text += fmt::format(" rows{}", p.rows);
  return text + " " + target_text(p.target);
}

Signature problem_signature(const AttentionProblem& p) {
  static constexpr std::string_view kNames[] = {"a", "b", "c", "d"};
  Signature s;
  for (int i = 0; i < p.inputs; ++i) {
    s.inputs.push_back({.name = kNames[i], .shape = {p.input_elements[i]}});
  }
  if (p.rows) {
    s.inputs.push_back({.name = "starts", .dtype = DType::kInt32, .shape = {p.batch + 1}});
  }
  s.outputs.push_back({.name = "out", .shape = {p.out_elements}});
  return s;
}

double problem_flops(const AttentionProblem& p) {
  if (p.rows) return 2.0 * p.rows * p.heads * std::min(p.sk, p.rows) * (p.dim + p.dim_v);
  return 2.0 * p.batch * p.heads * p.sq * p.sk * (p.dim + p.dim_v);
}

}  // namespace stretto::kernels
