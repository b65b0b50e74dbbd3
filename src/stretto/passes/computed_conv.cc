// A convolution whose weights the model computes cannot have them packed. It becomes a product of
// the weights with what every output reads:
//
//   [n, c, ...] -> padded -> gathered [n, c, taps * outputs] -> [n, groups, c / groups * taps,
//   outputs] [k, c / groups, ...] -> [groups, k / groups, c / groups * taps]
#include "stretto/ir/operator.h"
#include "stretto/ir/ops/window.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"computed-conv", "computed-bias"};
constexpr int64_t kMostElements = 64 << 20;  // of what is gathered

ValueId reshaped(Rewriter& graph, int n, ValueId x, const Shape& shape, std::string_view what) {
  return graph.insert(n, "Reshape", {x, graph.add_constant("shape", Tensor::int64s(shape))}, {},
                      DType::kFloat32, shape, graph.node(n).name + std::string(what));
}

ValueId padded(Rewriter& graph, int n, ValueId x, const ir::ops::Window& w) {
  Shape shape = graph.shape(x);
  const size_t rank = shape.size(), missing = 5 - rank;
  std::vector<int64_t> pads(2 * rank, 0);
  bool any = false;
  for (size_t i = 2; i < rank; ++i) {
    pads[i] = w.pad_begin[i + missing - 2];
    pads[i + rank] = w.pad_end[i + missing - 2];
    shape[i] += pads[i] + pads[i + rank];
    any = any || pads[i] + pads[i + rank] > 0;
  }
  if (!any) return x;
  return graph.insert(n, "Pad", {x, graph.add_constant("pads", Tensor::int64s(pads))}, {},
                      DType::kFloat32, shape, graph.node(n).name + ".padded");
}

// For every tap and output: which element of a padded map it reads.
Tensor places(const ir::ops::Window& w) {
  const auto size = [&](int axis) {
    return static_cast<int32_t>(w.input[axis] + w.pad_begin[axis] + w.pad_end[axis]);
  };
  const int32_t line = size(2), plane = size(1) * line;
  Tensor tensor(DType::kInt32, {w.kernel_size() * w.output_size()});
  const auto to = tensor.mutable_values<int32_t>();
  size_t at = 0;
  const auto each = [](const ir::ops::Window::Axes& axes, auto&& f) {
    for (int64_t a = 0; a < axes[0]; ++a) {
      for (int64_t b = 0; b < axes[1]; ++b) {
        for (int64_t c = 0; c < axes[2]; ++c) f(ir::ops::Window::Axes{a, b, c});
      }
    }
  };
  each(w.kernel, [&](const auto& tap) {
    each(w.output, [&](const auto& o) {
      int32_t from[3];
      for (size_t i = 0; i < 3; ++i)
        from[i] = static_cast<int32_t>(o[i] * w.stride[i] + tap[i] * w.dilation[i]);
      to[at++] = from[0] * plane + from[1] * line + from[2];
    });
  });
  return tensor;
}

// A bias of the channels, to be added to [n, channels, ...] of that rank.
ValueId column_of(Rewriter& graph, int n, ValueId bias, size_t rank) {
  Shape column(rank, 1);
  column[1] = graph.shape(bias)[0];
  return reshaped(graph, n, bias, column, ".bias");
}

void rewrite(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const Shape x = graph.shape(node.inputs[0]), y = graph.shape(node.outputs[0]);
  const Shape weight = graph.shape(node.inputs[1]);
  const bool bias = node.inputs.size() > 2 && node.inputs[2] != kNone;
  if (graph.dtype(node.inputs[0]) != DType::kFloat32 || x.size() < 3 || x.size() > 5 ||
      element_count(y) == 0) {
    return;
  }
  if (graph.constant(node.inputs[1]) != nullptr) {
    if (!bias || graph.constant(node.inputs[2]) != nullptr ||
        !context.allow("computed-bias", node.name)) {
      return;
    }
    const ValueId sums = graph.insert(n, "Conv", {node.inputs[0], node.inputs[1]}, node.attributes,
                                      DType::kFloat32, y, node.name + ".conv");
    graph.become(n, "Add", {sums, column_of(graph, n, node.inputs[2], y.size())}, {});
    return;
  }
  const auto w =
      ir::ops::make_window(node.attributes, std::span(x).subspan(2), std::span(weight).subspan(2));
  const int64_t taps = w.kernel_size(), outputs = w.output_size();
  const int64_t group = node.attributes.integer("group", 1), depth = weight[1] * taps;
  if (taps * outputs > kMostElements / (x[0] * x[1]) ||
      !context.allow("computed-conv", node.name)) {
    return;
  }
  ValueId read = padded(graph, n, node.inputs[0], w);
  const Shape map = graph.shape(read);
  const int64_t size = element_count(map) / (map[0] * map[1]);
  read = reshaped(graph, n, read, {x[0], x[1], size}, ".maps");
  if (taps > 1 || outputs != size) {
    Attributes axis;
    axis.set("axis", int64_t{2});
    read = graph.insert(n, "Gather", {read, graph.add_constant("places", places(w))}, axis,
                        DType::kFloat32, {x[0], x[1], taps * outputs}, node.name + ".read");
  }
  const int64_t filters = weight[0] / group;
  const ValueId matrix = reshaped(graph, n, node.inputs[1], {1, group, filters, depth}, ".weights");
  read = reshaped(graph, n, read, {x[0], group, depth, outputs}, ".columns");
  ValueId sums = graph.insert(n, "MatMul", {matrix, read}, {}, DType::kFloat32,
                              {x[0], group, filters, outputs}, node.name + ".product");
  if (bias) {
    sums = reshaped(graph, n, sums, {x[0], y[1], outputs}, ".rows");
    sums = graph.insert(n, "Add", {sums, column_of(graph, n, node.inputs[2], 3)}, {},
                        DType::kFloat32, {x[0], y[1], outputs}, node.name + ".sum");
  }
  graph.become(n, "Reshape", {sums, graph.add_constant("shape", Tensor::int64s(y))}, {});
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "Conv")) rewrite(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kComputedConv{.name = "computed-conv",
                         .summary = "convolutions of computed weights as products",
                         .rules = kRules,
                         .run = run};

}  // namespace stretto::passes
