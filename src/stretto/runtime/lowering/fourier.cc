#include <optional>

#include "stretto/kernels/fourier/problem.h"
#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {
namespace {

using kernels::FourierProblem;

// An input of one known integer.
std::optional<int64_t> known(Lowering& l, const ir::Node& node, size_t i, int64_t otherwise) {
  if (i >= node.inputs.size() || node.inputs[i] == ir::kNone) return otherwise;
  const Tensor* given = l.constant(node.inputs[i]);
  if (given == nullptr || given->count() != 1) return std::nullopt;
  return given->as_int64s()[0];
}

bool add(Lowering& l, const ir::Node& node, FourierProblem p, std::vector<ir::ValueId> inputs) {
  p.target = l.target();
  p.dtype = l.graph().value(node.inputs[0]).dtype;
  if (p.dtype != DType::kFloat32 && p.dtype != DType::kFloat64) return false;
  const std::vector<Layout> in(inputs.size(), Layout::kPlain);
  return l.add<FourierProblem>(node, kernels::kFourier, std::move(inputs), {node.outputs[0]},
                               {{p, in, {Layout::kPlain}}});
}

}  // namespace

bool lower_dft(Lowering& l, const ir::Node& node) {
  const Shape& x = l.shape(node.inputs[0]);
  const Shape& y = l.shape(node.outputs[0]);
  const auto rank = static_cast<int64_t>(x.size());
  const auto given_axis = known(l, node, 2, -2);
  if (!given_axis) return false;
  const int64_t axis = normalize_axis(*given_axis, rank, "axis");
  FourierProblem p{};
  p.size = x[axis];
  p.kept = y[axis];
  p.parts = static_cast<uint8_t>(x.back());
  p.kept_parts = static_cast<uint8_t>(y.back());
  p.inverse = node.attributes.integer("inverse", 0) != 0;
  const auto length = known(l, node, 1, p.kept_parts == 1 ? 2 * (p.size - 1) : p.size);
  if (!length) return false;
  p.length = *length;
  for (int64_t i = 0; i < rank - 1; ++i) {
    if (i < axis) p.outer *= x[i];
    if (i > axis) p.inner *= x[i];
  }
  return add(l, node, p, {node.inputs[0]});
}

bool lower_stft(Lowering& l, const ir::Node& node) {
  const Shape& x = l.shape(node.inputs[0]);
  const Shape& y = l.shape(node.outputs[0]);
  const auto step = known(l, node, 1, 1);
  const bool window = node.inputs.size() > 2 && node.inputs[2] != ir::kNone;
  const auto length = known(l, node, 3, window ? l.shape(node.inputs[2])[0] : 0);
  if (!step || !length) return false;
  FourierProblem p{};
  p.outer = x[0];
  p.size = x[1];
  p.frames = y[1];
  p.step = *step;
  p.length = *length;
  p.kept = y[2];
  p.parts = static_cast<uint8_t>(x.size() == 2 ? 1 : x[2]);
  p.window = window;
  std::vector<ir::ValueId> inputs{node.inputs[0]};
  if (window) inputs.push_back(node.inputs[2]);
  return add(l, node, p, inputs);
}

}  // namespace stretto::runtime
