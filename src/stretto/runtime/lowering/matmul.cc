#include "stretto/kernels/matmul/problem.h"

#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {

bool lower_matmul(Lowering& l, const ir::Node& node) {
  const Shape& a = l.shape(node.inputs[0]);
  const Shape& b = l.shape(node.inputs[1]);
  const Shape& y = l.shape(node.outputs[0]);
  if (!l.is_float32(node.outputs[0]) || a.size() < 2 || b.size() < 2) return false;
  kernels::MatmulProblem p{};
  p.target = l.target();
  p.transposed = node.attributes.integer("trans_b", 0) != 0;
  p.alpha = static_cast<float>(node.attributes.number("scale", 1));
  p.m = a[a.size() - 2];
  p.k = a[a.size() - 1];
  p.n = b[b.size() - (p.transposed ? 2 : 1)];
  const size_t rank = y.size() - 2;
  if (rank > kernels::MatmulProblem::kMaxBatchRank) return false;
  p.rank = static_cast<int32_t>(rank);
  const auto extent = [&](const Shape& s, size_t i) {
    const size_t missing = y.size() - s.size();
    return i < missing ? int64_t{1} : s[i - missing];
  };
  for (size_t i = 0; i < rank; ++i) {
    p.batch[i] = y[i];
    p.broadcast_x[i] = extent(a, i) != y[i];
    p.broadcast_z[i] = extent(b, i) != y[i];
  }
  return l.add<kernels::MatmulProblem>(node, kernels::kMatmul, {node.inputs[0], node.inputs[1]},
                                       {node.outputs[0]},
                                       {{p, {Layout::kPlain, Layout::kPlain}, {Layout::kPlain}}});
}

}  // namespace stretto::runtime
