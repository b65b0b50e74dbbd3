#include "stretto/base/error.h"
#include "stretto/kernels/gemm/problem.h"
#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {

using kernels::GemmProblem;

bool lower_linear(Lowering& l, const ir::Node& node) {
  const auto input = [&](size_t i) { return i < node.inputs.size() ? node.inputs[i] : ir::kNone; };
  const Tensor* weight = l.constant(input(1));
  const ir::ValueId bias = input(2), residual = input(3), y = node.outputs[0];
  if (weight == nullptr || (bias != ir::kNone && l.constant(bias) == nullptr)) return false;
  if (!l.is_float32(y)) return false;
  GemmProblem p{};
  p.target = l.target();
  p.transposed = node.attributes.integer("trans_weight", 0) != 0;
  p.k = weight->dim(p.transposed ? 1 : 0);
  p.n = weight->dim(p.transposed ? 0 : 1);
  if (p.k == 0 || p.n == 0) return false;
  p.m = element_count(l.shape(input(0))) / p.k;
  p.epilogue = epilogue_of(node, bias != ir::kNone, residual != ir::kNone);
  std::vector<ir::ValueId> inputs{input(0)};
  if (residual != ir::kNone) {
    if (l.shape(residual) != l.shape(y)) return false;
    inputs.push_back(residual);
  }
  std::vector<Tensor> constants{*weight};
  if (bias != ir::kNone) constants.push_back(*l.constant(bias));
  std::vector<Layout> plain(inputs.size(), Layout::kPlain);
  return l.add<GemmProblem>(node, kernels::kGemm, inputs, {y}, {{p, plain, {Layout::kPlain}}},
                            std::move(constants));
}

}  // namespace stretto::runtime
