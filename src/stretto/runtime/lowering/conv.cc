#include <tuple>

#include "stretto/base/error.h"
#include "stretto/kernels/conv2d/problem.h"
#include "stretto/kernels/conv_transpose2d/problem.h"
#include "stretto/kernels/gemm/problem.h"
#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {
namespace {

using kernels::Conv2dProblem;
using kernels::ConvTranspose2dProblem;

// Image dimensions of a rank-3 or rank-4 tensor; a rank-3 one is a row.
struct Image {
  int64_t n, c, h, w;
};

Image image_of(const Shape& s) {
  return s.size() == 4 ? Image{s[0], s[1], s[2], s[3]} : Image{s[0], s[1], 1, s[2]};
}

// Window attribute (strides, dilations, ...) of length 1 or 2 as {h, w}.
std::pair<int32_t, int32_t> pair_of(const ir::Node& node, std::string_view name, int64_t fallback) {
  const auto list = node.attributes.integers(name, {fallback, fallback});
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  if (list.size() == 1) return {static_cast<int32_t>(fallback), narrow(list[0])};
  return {narrow(list[0]), narrow(list[1])};
}

}  // namespace

kernels::Epilogue epilogue_of(const ir::Node& node, bool bias, bool residual) {
  kernels::Epilogue e;
  const std::string name = node.attributes.text("activation", "none");
  const auto activation = parse_activation(name);
  STRETTO_CHECK(activation.has_value(), "{}: unknown activation '{}'", node.name, name);
  e.activation = *activation;
  e.alpha = static_cast<float>(node.attributes.number("alpha", 0));
  e.beta = static_cast<float>(node.attributes.number("beta", 0));
  e.bias = bias;
  e.residual = residual;
  e.residual_after_activation = node.attributes.integer("residual_after_activation", 0) != 0;
  return e;
}

namespace {

// What the two directions of convolution have in common: operands checked, geometry filled in, and
// one choice per pair of layouts.
template <typename P>
bool lower_image(Lowering& l, const ir::Node& node, const kernels::Family& family, P p,
                 int64_t channels_out, Shape weight_shape) {
  const auto input = [&](size_t i) { return i < node.inputs.size() ? node.inputs[i] : ir::kNone; };
  const Tensor& weight = *l.constant(input(1));
  const ir::ValueId bias = input(2), residual = input(3), y = node.outputs[0];
  const Shape& shape = l.shape(input(0));
  const bool row = shape.size() == 3;
  const Image x = image_of(shape);
  p.target = l.target();
  p.n = x.n;
  p.c = x.c;
  p.h = x.h;
  p.w = x.w;
  p.k = channels_out;
  p.kernel_h = row ? 1 : static_cast<int32_t>(weight.dim(2));
  p.kernel_w = static_cast<int32_t>(weight.dim(weight.rank() - 1));
  std::tie(p.stride_h, p.stride_w) = pair_of(node, "strides", 1);
  std::tie(p.dilation_h, p.dilation_w) = pair_of(node, "dilations", 1);
  const auto pads = node.attributes.integers("pads", row ? Shape{0, 0} : Shape{0, 0, 0, 0});
  p.pad_left = static_cast<int32_t>(row ? pads[0] : pads[1]);
  p.pad_right = static_cast<int32_t>(row ? pads[1] : pads[3]);
  p.pad_top = static_cast<int32_t>(row ? 0 : pads[0]);
  p.pad_bottom = static_cast<int32_t>(row ? 0 : pads[2]);
  p.groups = static_cast<int32_t>(node.attributes.integer("group", 1));
  p.epilogue = epilogue_of(node, bias != ir::kNone, residual != ir::kNone);

  std::vector<ir::ValueId> inputs{input(0)};
  if (residual != ir::kNone) inputs.push_back(residual);
  std::vector<Lowering::Choice<P>> choices;
  for (const auto& [from, to] : kLayoutPairs) {
    if (row && (from == Layout::kBlocked || to == Layout::kBlocked)) continue;
    p.x_layout = from;
    p.y_layout = to;
    std::vector<Layout> in{from};
    if (residual != ir::kNone) in.push_back(to);
    choices.push_back({p, in, {to}});
  }
  weight_shape.push_back(p.kernel_h);
  weight_shape.push_back(p.kernel_w);
  std::vector<Tensor> constants{weight.reshaped(std::move(weight_shape))};
  if (bias != ir::kNone) constants.push_back(*l.constant(bias));
  return l.add(node, family, inputs, {y}, choices, std::move(constants));
}

// Kernels need constant fp32 weights over one or two spatial axes, and explicit pads.
bool has_kernel_form(Lowering& l, const ir::Node& node) {
  if (node.attributes.text("auto_pad", "NOTSET") != "NOTSET") return false;
  if (node.attributes.has("output_shape")) return false;
  const auto constant_or_absent = [&](size_t i) {
    return i >= node.inputs.size() || node.inputs[i] == ir::kNone ||
           l.constant(node.inputs[i]) != nullptr;
  };
  const size_t rank = l.shape(node.outputs[0]).size();
  // The passes spell out every pad; whoever made a graph without them gets the reference.
  if (node.attributes.text("auto_pad", "NOTSET") != "NOTSET") return false;
  if (node.attributes.has("output_shape")) return false;
  for (std::string_view name : {"pads", "strides", "dilations", "output_padding"}) {
    if (!small_window(node.attributes.integers(name, {}))) return false;
  }
  if (!small_window(std::span(l.shape(node.inputs[1])).subspan(2))) return false;
  return l.constant(node.inputs[1]) != nullptr && constant_or_absent(2) &&
         l.is_float32(node.outputs[0]) && (rank == 3 || rank == 4);
}

// On a map of one pixel a 1x1 convolution is a product of a row with a matrix, and plain NC11 is
// NC.
bool is_vector_product(Lowering& l, const ir::Node& node) {
  const Shape& x = l.shape(node.inputs[0]);
  const Shape& y = l.shape(node.outputs[0]);
  return element_count(x) == x[0] * x[1] && element_count(y) == y[0] * y[1] &&
         l.constant(node.inputs[1])->count() == x[1] * y[1] &&
         node.attributes.integer("group", 1) == 1;
}

bool lower_vector_product(Lowering& l, const ir::Node& node) {
  const auto input = [&](size_t i) { return i < node.inputs.size() ? node.inputs[i] : ir::kNone; };
  const ir::ValueId bias = input(2), residual = input(3);
  kernels::GemmProblem p{};
  p.target = l.target();
  p.m = l.shape(input(0))[0];
  p.k = l.shape(input(0))[1];
  p.n = l.shape(node.outputs[0])[1];
  p.transposed = 1;
  p.epilogue = epilogue_of(node, bias != ir::kNone, residual != ir::kNone);
  std::vector<ir::ValueId> inputs{input(0)};
  if (residual != ir::kNone) inputs.push_back(residual);
  std::vector<Tensor> constants{l.constant(input(1))->reshaped({p.n, p.k})};
  if (bias != ir::kNone) constants.push_back(*l.constant(bias));
  const std::vector<Layout> plain(inputs.size(), Layout::kPlain);
  return l.add<kernels::GemmProblem>(node, kernels::kGemm, inputs, {node.outputs[0]},
                                     {{p, plain, {Layout::kPlain}}}, std::move(constants));
}

}  // namespace

bool lower_conv(Lowering& l, const ir::Node& node) {
  if (!has_kernel_form(l, node)) return false;
  if (is_vector_product(l, node)) return lower_vector_product(l, node);
  const Tensor& weight = *l.constant(node.inputs[1]);
  Conv2dProblem p{};
  p.exact = node.attributes.integer("exact", 0) != 0;
  return lower_image(l, node, kernels::kConv2d, p, weight.dim(0), {weight.dim(0), weight.dim(1)});
}

bool lower_conv_transpose(Lowering& l, const ir::Node& node) {
  if (!has_kernel_form(l, node)) return false;
  const Tensor& weight = *l.constant(node.inputs[1]);
  ConvTranspose2dProblem p{};
  std::tie(p.output_padding_h, p.output_padding_w) = pair_of(node, "output_padding", 0);
  const int64_t k = weight.dim(1) * node.attributes.integer("group", 1);
  return lower_image(l, node, kernels::kConvTranspose2d, p, k, {weight.dim(0), weight.dim(1)});
}

}  // namespace stretto::runtime
