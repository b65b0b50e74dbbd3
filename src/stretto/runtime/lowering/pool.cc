#include "stretto/ir/ops/window.h"
#include "stretto/kernels/global_pool/problem.h"
#include "stretto/kernels/pool2d/problem.h"
#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {
namespace {

bool both_layouts(Lowering& l, const ir::Node& node, const kernels::Family& family, auto problem) {
  std::vector<Lowering::Choice<decltype(problem)>> choices;
  for (Layout layout : {Layout::kBlocked, Layout::kPlain}) {
    problem.layout = layout;
    choices.push_back({problem, {layout}, {layout}});
  }
  return l.add(node, family, {node.inputs[0]}, {node.outputs[0]}, choices);
}

// The whole of every map to one value.
bool add_global_pool(Lowering& l, const ir::Node& node, kernels::Pooling kind) {
  const Shape& x = l.shape(node.inputs[0]);
  if (x.size() < 3 || !l.is_float32(node.inputs[0])) return false;
  kernels::GlobalPoolProblem p{};
  p.target = l.target();
  p.n = x[0];
  p.c = x[1];
  p.h = x[2];
  p.w = 1;
  for (size_t i = 3; i < x.size(); ++i) p.w *= x[i];
  p.kind = kind;
  if (x.size() == 4) return both_layouts(l, node, kernels::kGlobalPool, p);
  return l.add<kernels::GlobalPoolProblem>(node, kernels::kGlobalPool, {node.inputs[0]},
                                           {node.outputs[0]},
                                           {{p, {Layout::kPlain}, {Layout::kPlain}}});
}

bool covers(const ir::ops::Window& w, std::span<const int64_t> sizes) {
  const auto none = [](const auto& pads) {
    return std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; });
  };
  return std::equal(sizes.begin(), sizes.end(), w.kernel.end() - sizes.size()) &&
         none(w.pad_begin) && none(w.pad_end);
}

}  // namespace

bool lower_pool(Lowering& l, const ir::Node& node) {
  const Shape& x = l.shape(node.inputs[0]);
  const Shape& y = l.shape(node.outputs[0]);
  const bool indices = node.outputs.size() > 1 && node.outputs[1] != ir::kNone;
  const DType dtype = l.graph().value(node.inputs[0]).dtype;
  const bool bytes = dtype == DType::kUInt8 || dtype == DType::kInt8;
  if (x.size() < 3 || x.size() > 5 || indices) return false;
  if (!l.is_float32(node.inputs[0]) && !bytes) return false;
  const auto kernel = node.attributes.integers("kernel_shape", {});
  const ir::ops::Window w = ir::ops::make_window(node.attributes, std::span(x).subspan(2), kernel,
                                                 node.attributes.integer("ceil_mode", 0) != 0);
  const kernels::Pooling kind =
      node.op->name == "MaxPool" ? kernels::Pooling::kMax : kernels::Pooling::kAverage;
  if (!bytes && covers(w, std::span(x).subspan(2))) return add_global_pool(l, node, kind);
  if (x.size() != 4) return false;
  for (const auto& extents : {w.kernel, w.stride, w.dilation, w.pad_begin, w.pad_end}) {
    if (!small_window(extents)) return false;
  }
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  kernels::Pool2dProblem p{};
  p.target = l.target();
  p.n = x[0];
  p.c = x[1];
  p.h = x[2];
  p.w = x[3];
  p.out_h = y[2];
  p.out_w = y[3];
  p.kernel_h = narrow(w.kernel[1]);
  p.kernel_w = narrow(w.kernel[2]);
  p.stride_h = narrow(w.stride[1]);
  p.stride_w = narrow(w.stride[2]);
  p.dilation_h = narrow(w.dilation[1]);
  p.dilation_w = narrow(w.dilation[2]);
  p.pad_top = narrow(w.pad_begin[1]);
  p.pad_left = narrow(w.pad_begin[2]);
  p.pad_bottom = narrow(w.pad_end[1]);
  p.pad_right = narrow(w.pad_end[2]);
  p.kind = kind;
  p.count_include_pad = static_cast<uint8_t>(node.attributes.integer("count_include_pad", 0) != 0);
  p.dtype = dtype;
  if (!bytes) return both_layouts(l, node, kernels::kPool2d, p);
  return l.add<kernels::Pool2dProblem>(node, kernels::kPool2d, {node.inputs[0]}, {node.outputs[0]},
                                       {{p, {Layout::kPlain}, {Layout::kPlain}}});
}

bool lower_global_pool(Lowering& l, const ir::Node& node) {
  return add_global_pool(
      l, node,
      node.op->name == "GlobalMaxPool" ? kernels::Pooling::kMax : kernels::Pooling::kAverage);
}

}  // namespace stretto::runtime
