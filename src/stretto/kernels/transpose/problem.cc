#include "stretto/kernels/transpose/problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "stretto/base/error.h"

namespace stretto::kernels {

TransposeProblem transpose_problem(const Target& target, std::span<const int64_t> shape,
                                   std::span<const int64_t> perm, DType dtype) {
  const size_t rank = shape.size();
  std::vector<bool> seen(rank);
  for (int64_t axis : perm) {
    if (axis >= 0 && axis < static_cast<int64_t>(rank)) seen[axis] = true;
  }
  if (perm.size() != rank || std::find(seen.begin(), seen.end(), false) != seen.end()) {
    throw_invalid("transpose: [{}] is no permutation of {} axes", fmt::join(perm, ","), rank);
  }
  // Runs of output axes that are consecutive input axes, as [first, last] input axis.
  std::vector<std::pair<int64_t, int64_t>> runs;
  const auto next_axis = [&](int64_t axis) {
    do ++axis;
    while (axis < static_cast<int64_t>(rank) && shape[axis] == 1);
    return axis;
  };
  for (int64_t axis : perm) {
    if (shape[axis] == 1) continue;
    if (!runs.empty() && next_axis(runs.back().second) == axis) {
      runs.back().second = axis;
    } else {
      runs.push_back({axis, axis});
    }
  }
  TransposeProblem p{.target = target, .dtype = dtype};
  if (runs.size() > p.kMaxRank) {
    throw_unsupported("transpose: {} dimensions after merging {}, at most {}", runs.size(),
                      shape_text(shape), p.kMaxRank);
  }
  p.rank = std::max<int32_t>(1, static_cast<int32_t>(runs.size()));
  std::vector<std::pair<int64_t, int64_t>> ordered = runs;
  std::sort(ordered.begin(), ordered.end());
  for (size_t k = 0; k < ordered.size(); ++k) {
    for (int64_t axis = ordered[k].first; axis <= ordered[k].second; ++axis) {
      p.dims[k] *= shape[axis];
    }
    for (int out = 0; out < p.rank && out < p.kMaxRank; ++out) {
      if (runs[out] == ordered[k]) p.perm[out] = static_cast<int8_t>(k);
    }
  }
  return p;
}

std::string problem_key(const TransposeProblem& p) {
  const size_t rank = static_cast<size_t>(p.rank);
  std::string order;
  for (size_t k = 0; k < rank; ++k) order += std::to_string(p.perm[k]);
  return fmt::format("transpose {} {} {} {}", fmt::join(std::span(p.dims).first(rank), "x"), order,
                     dtype_name(p.dtype), target_text(p.target));
}

Signature problem_signature(const TransposeProblem& p) {
  Shape out;
  for (int k = 0; k < p.rank; ++k) out.push_back(p.dims[p.perm[k]]);
  return {.inputs = {{.name = "x", .dtype = p.dtype, .shape = Shape(p.dims, p.dims + p.rank)}},
          .constants = {},
          .outputs = {{.name = "y", .dtype = p.dtype, .shape = out}}};
}

double problem_flops(const TransposeProblem&) { return 0; }

}  // namespace stretto::kernels
