#include "stretto/kernels/reduce/problem.h"

#include <fmt/format.h>

#include <array>

#include "stretto/base/error.h"

namespace stretto::kernels {

std::string_view reduction_name(Reduction kind) {
  static constexpr std::array<std::string_view, 8> kNames{"sum",  "mean", "max", "min",
                                                          "prod", "l1",   "l2",  "sum_square"};
  return kNames[static_cast<size_t>(kind)];
}

bool can_reduce(Reduction kind, DType dtype) {
  if (dtype == DType::kFloat32) return true;
  const bool exact = kind == Reduction::kSum || kind == Reduction::kMax ||
                     kind == Reduction::kMin || kind == Reduction::kProd;
  return exact && (dtype == DType::kInt32 || dtype == DType::kInt64);
}

ReduceProblem reduce_problem(const Target& target, std::span<const int64_t> shape,
                             std::span<const int64_t> axes, Reduction kind, DType dtype) {
  const int64_t rank = static_cast<int64_t>(shape.size());
  std::vector<bool> reduced(shape.size());
  for (int64_t axis : axes) reduced[normalize_axis(axis, rank, "reduce: axis")] = true;
  ReduceProblem p{.target = target, .rank = 0, .reduced = 0, .kind = kind, .dtype = dtype};
  bool last = false;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    if (p.rank > 0 && reduced[axis] == last) {
      p.dims[p.rank - 1] *= shape[axis];
      continue;
    }
    if (p.rank == p.kMaxRank) {
      throw_unsupported("reduce: more than {} dimensions after merging {}", p.kMaxRank,
                        shape_text(shape));
    }
    last = reduced[axis];
    p.reduced |= static_cast<uint8_t>(last << p.rank);
    p.dims[p.rank++] = shape[axis];
  }
  if (p.rank == 0) p.rank = 1;
  return p;
}

std::string problem_key(const ReduceProblem& p) {
  std::string text = fmt::format("reduce {} ", reduction_name(p.kind));
  if (p.dtype != DType::kFloat32) text += fmt::format("{} ", dtype_name(p.dtype));
  for (int k = 0; k < p.rank; ++k) {
    const bool reduced = p.reduced >> k & 1;
    text +=
        fmt::format("{}{}{}{}", k ? "x" : "", reduced ? "[" : "", p.dims[k], reduced ? "]" : "");
  }
  return text + " " + target_text(p.target);
}

Signature problem_signature(const ReduceProblem& p) {
  Shape out;
  for (int k = 0; k < p.rank; ++k) {
    if (!(p.reduced >> k & 1)) out.push_back(p.dims[k]);
  }
  return {.inputs = {{.name = "x", .dtype = p.dtype, .shape = Shape(p.dims, p.dims + p.rank)}},
          .constants = {},
          .outputs = {{.name = "y", .dtype = p.dtype, .shape = out}}};
}

double problem_flops(const ReduceProblem& p) {
  double count = 1;
  for (int k = 0; k < p.rank; ++k) count *= static_cast<double>(p.dims[k]);
  return count;
}

}  // namespace stretto::kernels
