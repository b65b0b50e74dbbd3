// Convolutions with constant weights become stretto.Conv with explicit pads, so that later passes
// handle one form only. Zero padding done by a Pad node moves into the convolution. Taps that see
// nothing but padding go, as in a convolution whose dilation is larger than its map.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"
#include "stretto/passes/conv_window.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"conv", "conv-transpose", "conv-pad", "conv-taps"};

// Nothing when the node is not a 1-D or 2-D convolution with constant weights of the right rank.
std::optional<ConvWindow> window_of(const Rewriter& graph, const Node& node, bool transposed) {
  const Tensor* weight = graph.constant(node.inputs[1]);
  const auto rank = graph.shape(node.inputs[0]).size();
  const bool bias = node.inputs.size() > 2 && node.inputs[2] != kNone;
  if (weight == nullptr || weight->dtype() != DType::kFloat32 || rank < 3 || rank > 4)
    return std::nullopt;
  if (bias && graph.constant(node.inputs[2]) == nullptr) return std::nullopt;
  return conv_window(graph, node, transposed);
}

bool any_negative(const std::vector<int64_t>& values) {
  return std::any_of(values.begin(), values.end(), [](int64_t v) { return v < 0; });
}

void fuse(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const bool transposed = node.op->name == "ConvTranspose";
  const auto window = window_of(graph, node, transposed);
  if (!window || any_negative(window->pads)) return;
  if (!context.allow(transposed ? "conv-transpose" : "conv", node.name)) return;
  Attributes attributes = window_attributes(*window, node.attributes.integer("group", 1));
  if (transposed && node.attributes.has("output_padding")) {
    attributes.set("output_padding", node.attributes.integers("output_padding", {}));
  }
  graph.become(n, transposed ? "stretto.ConvTranspose" : "stretto.Conv", node.inputs,
               std::move(attributes));
}

// Pads of each axis of a Pad node that pads with zeros, [begins, ends]; nothing otherwise.
std::optional<std::vector<int64_t>> zero_pads(const Rewriter& graph, int pad) {
  const Node& node = graph.node(pad);
  if (node.attributes.text("mode", "constant") != "constant") return std::nullopt;
  if (node.inputs.size() > 2 && node.inputs[2] != kNone && !all_equal(graph, node.inputs[2], 0)) {
    return std::nullopt;
  }
  const auto given = integers(graph, pad, 1, "pads");
  if (!given || any_negative(*given)) return std::nullopt;
  const auto rank = static_cast<int64_t>(graph.shape(node.inputs[0]).size());
  std::vector<int64_t> axes;
  if (node.inputs.size() > 3 && node.inputs[3] != kNone) {
    const auto chosen = integers(graph, pad, 3, "");
    if (!chosen) return std::nullopt;
    axes = *chosen;
  } else {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
  }
  std::vector<int64_t> pads(static_cast<size_t>(2 * rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = normalize_axis(axes[i], rank, "axes");
    pads[axis] = (*given)[i];
    pads[axis + rank] = (*given)[i + axes.size()];
  }
  return pads;
}

void fold_pad(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const int pad = graph.maker(node.inputs[0], "Pad");
  if (pad < 0) return;
  const auto outer = zero_pads(graph, pad);
  const size_t rank = graph.shape(node.inputs[0]).size(), spatial = rank - 2;
  if (!outer || (*outer)[0] + (*outer)[1] + (*outer)[rank] + (*outer)[rank + 1] != 0) return;
  if (!context.allow("conv-pad", node.name)) return;
  Attributes attributes = node.attributes;
  auto pads = attributes.integers("pads", {});
  for (size_t i = 0; i < spatial; ++i) {
    pads[i] += (*outer)[i + 2];
    pads[i + spatial] += (*outer)[rank + i + 2];
  }
  attributes.set("pads", pads);
  std::vector<ValueId> inputs = node.inputs;
  inputs[0] = graph.node(pad).inputs[0];
  graph.become(n, "stretto.Conv", std::move(inputs), std::move(attributes));
}

// Taps [begin, end) of one axis that are kept: all that see the input at some output position, and
// as many more as it takes to keep pads from becoming negative.
struct Taps {
  int64_t begin, end;
};
Taps live_taps(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation,
               int64_t pad_begin, int64_t pad_end) {
  const int64_t last = (out - 1) * stride;  // where tap 0 of the last position would be, unpadded
  Taps live{0, kernel};
  while (live.end - live.begin > 1 && last + live.begin * dilation < pad_begin &&
         (live.begin + 1) * dilation <= pad_begin)
    ++live.begin;
  while (live.end - live.begin > 1 && (live.end - 1) * dilation - pad_begin >= in &&
         (kernel - live.end + 1) * dilation <= pad_end)
    --live.end;
  return live;
}

Tensor with_taps(const Tensor& weight, const std::vector<Taps>& live) {
  const Taps rows = live.size() > 1 ? live[0] : Taps{0, 1}, columns = live.back();
  const int64_t height = live.size() > 1 ? weight.dim(2) : 1, width = weight.shape().back();
  Shape shape = weight.shape();
  for (size_t i = 0; i < live.size(); ++i) shape[i + 2] = live[i].end - live[i].begin;
  Tensor out(DType::kFloat32, shape);
  const auto from = weight.values<float>();
  float* to = out.mutable_values<float>().data();
  for (int64_t filter = 0; filter < weight.dim(0) * weight.dim(1); ++filter) {
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const auto row = from.subspan(static_cast<size_t>((filter * height + r) * width));
      to = std::copy(row.begin() + columns.begin, row.begin() + columns.end, to);
    }
  }
  return out;
}

void drop_taps(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const Shape x = graph.shape(node.inputs[0]), y = graph.shape(node.outputs[0]);
  const auto window = window_of(graph, node, false);
  if (!window || node.attributes.has("auto_pad")) return;
  const Tensor weight = *graph.constant(node.inputs[1]);
  if (element_count(x) == 0 || element_count(y) == 0 || weight.count() == 0) return;
  Attributes attributes = node.attributes;
  auto [kernel, strides, dilations, pads] = *window;
  const size_t spatial = kernel.size();
  std::vector<Taps> live(spatial);
  bool fewer = false;
  for (size_t i = 0; i < spatial; ++i) {
    live[i] = live_taps(x[i + 2], y[i + 2], kernel[i], strides[i], dilations[i], pads[i],
                        pads[i + spatial]);
    pads[i] -= live[i].begin * dilations[i];
    pads[i + spatial] -= (kernel[i] - live[i].end) * dilations[i];
    fewer |= live[i].end - live[i].begin < kernel[i];
    kernel[i] = live[i].end - live[i].begin;
    if (kernel[i] == 1) dilations[i] = 1;
  }
  std::string recipe = "taps";
  for (const Taps& taps : live) recipe += fmt::format(" {}-{}", taps.begin, taps.end);
  if (!fewer || !context.may_derive(recipe, std::array{weight}) ||
      !context.allow("conv-taps", node.name)) {
    return;
  }
  attributes.set("kernel_shape", kernel);
  attributes.set("dilations", dilations);
  attributes.set("pads", pads);
  std::vector<ValueId> inputs = node.inputs;
  const Tensor rest =
      context.derive_one(recipe, std::array{weight}, [&] { return with_taps(weight, live); });
  inputs[1] = graph.add_constant(graph.name(inputs[1]), rest);
  graph.become(n, "stretto.Conv", std::move(inputs), std::move(attributes), node.name);
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "Conv") || rewriter.is(n, "ConvTranspose")) fuse(rewriter, n, context);
    if (rewriter.is(n, "stretto.Conv")) fold_pad(rewriter, n, context);
    if (rewriter.is(n, "stretto.Conv")) drop_taps(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kFuseConv{.name = "fuse-conv",
                     .summary = "convolutions in Stretto's form: explicit pads, Pad nodes taken in",
                     .rules = kRules,
                     .run = run};

}  // namespace stretto::passes
