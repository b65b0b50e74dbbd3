// Operators that work along one axis: cumulative sums, softmax and the norms.
#include "stretto/kernels/cumsum/problem.h"
#include "stretto/kernels/group_norm/problem.h"
#include "stretto/kernels/layer_norm/problem.h"
#include "stretto/kernels/softmax/problem.h"
#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {

bool lower_cumsum(Lowering& l, const ir::Node& node) {
  const Shape& x = l.shape(node.inputs[0]);
  const Tensor* axis_value = l.constant(node.inputs[1]);
  const DType dtype = l.graph().value(node.inputs[0]).dtype;
  if (axis_value == nullptr || (dtype != DType::kFloat32 && dtype != DType::kFloat64 &&
                                dtype != DType::kInt32 && dtype != DType::kInt64)) {
    return false;
  }
  const int64_t axis =
      normalize_axis(axis_value->as_int64s()[0], static_cast<int64_t>(x.size()), node.name);
  kernels::CumSumProblem p{};
  p.target = l.target();
  p.axis = x[axis];
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    if (i < axis) p.outer *= x[i];
    if (i > axis) p.inner *= x[i];
  }
  p.dtype = dtype;
  p.product = node.op->name == "CumProd";
  p.exclusive = node.attributes.integer("exclusive", 0) != 0;
  p.reverse = node.attributes.integer("reverse", 0) != 0;
  return l.add<kernels::CumSumProblem>(node, kernels::kCumSum, {node.inputs[0]}, {node.outputs[0]},
                                       {{p, {Layout::kPlain}, {Layout::kPlain}}});
}

bool lower_softmax(Lowering& l, const ir::Node& node) {
  const Shape& x = l.shape(node.inputs[0]);
  if (x.empty() || !l.is_float32(node.inputs[0])) return false;
  const int64_t axis = normalize_axis(node.attributes.integer("axis", -1),
                                      static_cast<int64_t>(x.size()), node.name);
  kernels::SoftmaxProblem p{};
  p.target = l.target();
  p.log = node.op->name == "LogSoftmax" ? 1 : 0;
  p.axis = x[axis];
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
    if (i < axis) p.outer *= x[i];
    if (i > axis) p.inner *= x[i];
  }
  return l.add<kernels::SoftmaxProblem>(node, kernels::kSoftmax, {node.inputs[0]},
                                        {node.outputs[0]},
                                        {{p, {Layout::kPlain}, {Layout::kPlain}}});
}

namespace {

// Scale and bias of a norm as pack() constants; nothing when one of them is not constant.
bool take_constants(Lowering& l, const ir::Node& node, size_t scale, size_t bias,
                    std::vector<Tensor>& constants, uint8_t& has_scale, uint8_t& has_bias) {
  const auto take = [&](size_t i, uint8_t& has) {
    has = i < node.inputs.size() && node.inputs[i] != ir::kNone;
    if (!has) return true;
    const Tensor* tensor = l.constant(node.inputs[i]);
    if (tensor == nullptr || tensor->dtype() != DType::kFloat32) return false;
    constants.push_back(tensor->reshaped({tensor->count()}));
    return true;
  };
  return take(scale, has_scale) && take(bias, has_bias);
}

}  // namespace

bool lower_layer_norm(Lowering& l, const ir::Node& node) {
  const bool fused = node.op->name == "stretto.AddLayerNorm";
  const Shape& x = l.shape(node.inputs[0]);
  if (x.empty() || !l.is_float32(node.inputs[0])) return false;
  const int64_t axis = fused ? static_cast<int64_t>(x.size()) - 1
                             : normalize_axis(node.attributes.integer("axis", -1),
                                              static_cast<int64_t>(x.size()), node.name);
  kernels::LayerNormProblem p{};
  p.target = l.target();
  for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) (i < axis ? p.m : p.n) *= x[i];
  p.epsilon = static_cast<float>(node.attributes.number("epsilon", 1e-5f));
  p.rms = node.op->name == "RMSNormalization";
  p.residual = fused;
  std::vector<ir::ValueId> inputs{node.inputs[0]}, outputs{node.outputs[0]};
  if (fused) inputs.push_back(node.inputs[1]);
  if (node.outputs.size() > 1 && node.outputs[1] != ir::kNone) {
    if (!fused) return false;  // mean and deviation as outputs: rare, the reference does it
    p.sum_output = 1;
    outputs.push_back(node.outputs[1]);
  }
  std::vector<Tensor> constants;
  if (!take_constants(l, node, fused ? 2 : 1, fused ? 3 : 2, constants, p.scale, p.bias)) {
    return false;
  }
  for (const Tensor& t : constants) {
    if (t.count() != p.n) return false;
  }
  const std::vector<Layout> in(inputs.size(), Layout::kPlain), out(outputs.size(), Layout::kPlain);
  return l.add<kernels::LayerNormProblem>(node, kernels::kLayerNorm, inputs, outputs,
                                          {{p, in, out}}, std::move(constants));
}

bool lower_group_norm(Lowering& l, const ir::Node& node) {
  const Shape& x = l.shape(node.inputs[0]);
  if (x.size() < 2 || !l.is_float32(node.inputs[0])) return false;
  kernels::GroupNormProblem p{};
  p.target = l.target();
  p.n = x[0];
  p.c = x[1];
  p.hw = p.n * p.c == 0 ? 0 : element_count(x) / (p.n * p.c);
  p.groups = static_cast<int32_t>(
      node.op->name == "InstanceNormalization" ? p.c : node.attributes.integer("num_groups", 1));
  p.epsilon = static_cast<float>(node.attributes.number("epsilon", 1e-5f));
  std::vector<Tensor> constants;
  if (!take_constants(l, node, 1, 2, constants, p.scale, p.bias)) return false;
  return l.add<kernels::GroupNormProblem>(
      node, kernels::kGroupNorm, {node.inputs[0]}, {node.outputs[0]},
      {{p, {Layout::kPlain}, {Layout::kPlain}}}, std::move(constants));
}

}  // namespace stretto::runtime
