#include "stretto/kernels/matmul_integer/problem.h"
#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {

using kernels::MatmulIntegerProblem;

bool lower_integer_linear(Lowering& l, const ir::Node& node) {
  enum Input : size_t { kX, kWeight, kScale, kZero, kBias };
  const auto input = [&](size_t i) { return i < node.inputs.size() ? node.inputs[i] : ir::kNone; };
  const Tensor* weight = l.constant(input(kWeight));
  const ir::ValueId bias = input(kBias), zero = input(kZero), y = node.outputs[0];
  if (weight == nullptr || (bias != ir::kNone && l.constant(bias) == nullptr)) return false;
  if (!l.is_float32(y)) return false;
  MatmulIntegerProblem p{};
  p.target = l.target();
  p.k = weight->dim(0);
  p.n = weight->dim(1);
  if (p.k == 0 || p.n == 0 || p.k > MatmulIntegerProblem::kMostSteps) return false;
  p.m = element_count(l.shape(input(kX))) / p.k;
  p.is_signed = l.graph().value(input(kX)).dtype == DType::kInt8;
  p.zero = zero != ir::kNone;
  p.scale_per_column = element_count(l.shape(input(kScale))) != 1;
  p.bias = bias != ir::kNone;
  std::vector<ir::ValueId> inputs{input(kX), input(kScale)};
  if (p.zero) inputs.push_back(zero);
  std::vector<Tensor> constants{*weight};
  if (p.bias) constants.push_back(*l.constant(bias));
  std::vector<Layout> plain(inputs.size(), Layout::kPlain);
  return l.add<MatmulIntegerProblem>(node, kernels::kMatmulInteger, inputs, {y},
                                     {{p, plain, {Layout::kPlain}}}, std::move(constants));
}

}  // namespace stretto::runtime
