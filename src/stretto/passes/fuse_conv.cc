// Convolutions with constant weights become stretto.Conv with explicit pads, so that later passes
// handle one form only. Zero padding done by a Pad node moves into the convolution.
#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"conv", "conv-transpose", "conv-pad"};

struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;
};

// Attributes with their defaults; nothing when the node is not a 1-D or 2-D convolution with
// constant weights of the right rank.
std::optional<Window> window_of(const Rewriter& graph, const Node& node) {
  const Tensor* weight = graph.constant(node.inputs[1]);
  const auto rank = graph.shape(node.inputs[0]).size();
  const bool bias = node.inputs.size() > 2 && node.inputs[2] != kNone;
  if (weight == nullptr || weight->dtype() != DType::kFloat32 || rank < 3 || rank > 4)
    return std::nullopt;
  if (bias && graph.constant(node.inputs[2]) == nullptr) return std::nullopt;
  const size_t spatial = rank - 2;
  const Attributes& a = node.attributes;
  return Window{.kernel = {weight->shape().begin() + 2, weight->shape().end()},
                .strides = a.integers("strides", std::vector<int64_t>(spatial, 1)),
                .dilations = a.integers("dilations", std::vector<int64_t>(spatial, 1)),
                .pads = a.integers("pads", std::vector<int64_t>(2 * spatial, 0))};
}

// The pads that auto_pad stands for, from the shapes inference found.
void resolve_pads(const Rewriter& graph, const Node& node, bool transposed, Window& w) {
  const std::string mode = node.attributes.text("auto_pad", "NOTSET");
  const bool shape_given = transposed && node.attributes.has("output_shape");
  if (mode == "NOTSET" && !shape_given) return;
  const size_t spatial = w.kernel.size();
  const auto extra = node.attributes.integers("output_padding", std::vector<int64_t>(spatial, 0));
  std::fill(w.pads.begin(), w.pads.end(), 0);
  if (mode == "VALID" && !shape_given) return;
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t in = graph.shape(node.inputs[0])[i + 2];
    const int64_t out = graph.shape(node.outputs[0])[i + 2];
    const int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    const int64_t total = transposed ? w.strides[i] * (in - 1) + extra[i] + reach - out
                                     : std::max<int64_t>((out - 1) * w.strides[i] + reach - in, 0);
    const int64_t half = total / 2;
    // The odd pixel goes to the end for SAME_UPPER, to the beginning otherwise.
    const bool odd_at_end = mode == "SAME_UPPER";
    w.pads[i] = odd_at_end ? half : total - half;
    w.pads[i + spatial] = total - w.pads[i];
  }
}

bool any_negative(const std::vector<int64_t>& values) {
  return std::any_of(values.begin(), values.end(), [](int64_t v) { return v < 0; });
}

void fuse(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const bool transposed = node.op->name == "ConvTranspose";
  auto window = window_of(graph, node);
  if (!window) return;
  resolve_pads(graph, node, transposed, *window);
  if (any_negative(window->pads)) return;
  if (!context.allow(transposed ? "conv-transpose" : "conv", node.name)) return;
  Attributes attributes;
  attributes.set("kernel_shape", window->kernel);
  attributes.set("strides", window->strides);
  attributes.set("dilations", window->dilations);
  attributes.set("pads", window->pads);
  attributes.set("group", node.attributes.integer("group", 1));
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

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "Conv") || rewriter.is(n, "ConvTranspose")) fuse(rewriter, n, context);
    if (rewriter.is(n, "stretto.Conv")) fold_pad(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kFuseConv{.name = "fuse-conv",
                     .summary = "convolutions in Stretto's form: explicit pads, Pad nodes taken in",
                     .rules = kRules,
                     .run = run};

}  // namespace stretto::passes
