// Convolutions and pools over volumes become those over planes, which have fast kernels.
//
// A convolution sums over the taps along the depth. So what it reads of all of them, one plane per
// tap, are channels of one plane, and planes are samples:
//
//   [n, c, d, h, w] -> [n, d, c, h, w] -> gathered [n * out_d, taps * c, h, w] -> Conv
//                   -> [n * out_d, k, out_h, out_w] -> [n, k, out_d, out_h, out_w]
//
// A pool is one over planes and one along the depth: maxima and means of full boxes separate, and
// so do the axes of Resize.
#include "stretto/ir/operator.h"
#include "stretto/ir/ops/window.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"volume-conv", "volume-pool", "volume-resize"};
const std::vector<int64_t> kDepthFirst{0, 2, 1, 3, 4};  // its own inverse

ValueId reshaped(Rewriter& graph, int n, ValueId x, const Shape& shape, std::string_view what) {
  return graph.insert(n, "Reshape", {x, graph.add_constant("shape", Tensor::int64s(shape))}, {},
                      DType::kFloat32, shape, graph.node(n).name + std::string(what));
}

ValueId transposed(Rewriter& graph, int n, ValueId x, std::vector<int64_t> order,
                   std::string_view what) {
  Shape shape;
  for (int64_t axis : order) shape.push_back(graph.shape(x)[static_cast<size_t>(axis)]);
  Attributes attributes;
  attributes.set("perm", std::move(order));
  return graph.insert(n, "Transpose", {x}, attributes, DType::kFloat32, shape,
                      graph.node(n).name + std::string(what));
}

void become_reshape(Rewriter& graph, int n, ValueId x) {
  const Shape shape = graph.shape(graph.node(n).outputs[0]);
  graph.become(n, "Reshape", {x, graph.add_constant("shape", Tensor::int64s(shape))}, {});
}

// The attributes of a window over axes [first, first + count) of the three.
Attributes window_over(const ir::ops::Window& w, size_t first, size_t count) {
  Attributes attributes;
  const auto part = [&](const ir::ops::Window::Axes& axes) {
    return std::vector<int64_t>(axes.begin() + static_cast<int64_t>(first),
                                axes.begin() + static_cast<int64_t>(first + count));
  };
  std::vector<int64_t> pads = part(w.pad_begin);
  for (int64_t pad : part(w.pad_end)) pads.push_back(pad);
  attributes.set("kernel_shape", part(w.kernel));
  attributes.set("strides", part(w.stride));
  attributes.set("dilations", part(w.dilation));
  attributes.set("pads", std::move(pads));
  return attributes;
}

// The planes that taps read along the depth: [n, out_d * taps, c, h, w] of x [n, d, c, h, w].
ValueId planes_of_taps(Rewriter& graph, int n, ValueId x, const ir::ops::Window& w) {
  Shape shape = graph.shape(x);
  const std::string name = graph.node(n).name;
  if (w.pad_begin[0] + w.pad_end[0] > 0) {
    std::vector<int64_t> pads(10, 0);
    pads[1] = w.pad_begin[0];
    pads[6] = w.pad_end[0];
    shape[1] += pads[1] + pads[6];
    x = graph.insert(n, "Pad", {x, graph.add_constant("pads", Tensor::int64s(pads))}, {},
                     DType::kFloat32, shape, name + ".padded");
  }
  std::vector<int64_t> planes;
  for (int64_t o = 0; o < w.output[0]; ++o) {
    for (int64_t k = 0; k < w.kernel[0]; ++k) planes.push_back(o * w.stride[0] + k * w.dilation[0]);
  }
  bool all = static_cast<int64_t>(planes.size()) == shape[1];
  for (size_t i = 0; i < planes.size(); ++i) all = all && planes[i] == static_cast<int64_t>(i);
  if (all) return x;
  shape[1] = static_cast<int64_t>(planes.size());
  Attributes axis;
  axis.set("axis", int64_t{1});
  return graph.insert(n, "Gather", {x, graph.add_constant("planes", Tensor::int64s(planes))}, axis,
                      DType::kFloat32, shape, name + ".planes");
}

// [k, c, taps, h, w] to [k, taps * c, h, w].
Tensor plane_weights(const Tensor& weight) {
  const Shape& s = weight.shape();
  Tensor planes(DType::kFloat32, {s[0], s[2] * s[1], s[3], s[4]});
  const auto from = weight.values<float>();
  const auto to = planes.mutable_values<float>();
  const int64_t plane = s[3] * s[4];
  for (int64_t k = 0, at = 0; k < s[0]; ++k) {
    for (int64_t t = 0; t < s[2]; ++t) {
      for (int64_t c = 0; c < s[1]; ++c) {
        const int64_t source = ((k * s[1] + c) * s[2] + t) * plane;
        for (int64_t i = 0; i < plane; ++i) to[at++] = from[source + i];
      }
    }
  }
  return planes;
}

void convolution(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const Tensor* weight = graph.constant(node.inputs[1]);
  const Shape x = graph.shape(node.inputs[0]), y = graph.shape(node.outputs[0]);
  if (x.size() != 5 || weight == nullptr || weight->dtype() != DType::kFloat32 ||
      graph.dtype(node.inputs[0]) != DType::kFloat32 || element_count(y) == 0 ||
      !context.allow("volume-conv", node.name)) {
    return;
  }
  const auto w = ir::ops::make_window(node.attributes, std::span(x).subspan(2),
                                      std::span(weight->shape()).subspan(2));
  const Tensor planes = plane_weights(*weight);
  const int64_t group = node.attributes.integer("group", 1), taps = w.kernel[0];
  const int64_t samples = x[0] * w.output[0];
  ValueId read = transposed(graph, n, node.inputs[0], kDepthFirst, ".depth_first");
  read = planes_of_taps(graph, n, read, w);
  if (group > 1 && taps > 1) {  // the taps of each group beside each other
    const Shape grouped{samples, taps, group, x[1] / group, x[3] * x[4]};
    read = reshaped(graph, n, read, grouped, ".groups");
    read = transposed(graph, n, read, kDepthFirst, ".taps");
  }
  read = reshaped(graph, n, read, {samples, taps * x[1], x[3], x[4]}, ".samples");
  std::vector<ValueId> inputs{read, graph.add_constant(graph.name(node.inputs[1]), planes)};
  if (node.inputs.size() > 2) inputs.push_back(node.inputs[2]);
  Attributes attributes = window_over(w, 1, 2);
  attributes.set("group", group);
  const ValueId made = graph.insert(n, "Conv", inputs, attributes, DType::kFloat32,
                                    {samples, y[1], y[3], y[4]}, node.name + ".conv");
  const ValueId deep = reshaped(graph, n, made, {x[0], w.output[0], y[1], y[3], y[4]}, ".depth");
  Attributes order;
  order.set("perm", kDepthFirst);
  graph.become(n, "Transpose", {deep}, order);
}

void pool(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const Shape x = graph.shape(node.inputs[0]), y = graph.shape(node.outputs[0]);
  const bool indices = node.outputs.size() > 1 && node.outputs[1] != kNone;
  if (x.size() != 5 || graph.dtype(node.inputs[0]) != DType::kFloat32 || element_count(y) == 0 ||
      indices) {
    return;
  }
  const auto kernel = node.attributes.integers("kernel_shape", {});
  const bool ceil = node.attributes.integer("ceil_mode", 0) != 0;
  const auto w = ir::ops::make_window(node.attributes, std::span(x).subspan(2), kernel, ceil);
  if (!context.allow("volume-pool", node.name)) return;
  const auto with_rest = [&](Attributes attributes) {
    for (const char* name : {"ceil_mode", "count_include_pad"}) {
      if (node.attributes.has(name)) attributes.set(name, node.attributes.integer(name, 0));
    }
    return attributes;
  };
  ValueId read = reshaped(graph, n, node.inputs[0], {x[0], x[1] * x[2], x[3], x[4]}, ".planes");
  read = graph.insert(n, node.op->name, {read}, with_rest(window_over(w, 1, 2)), DType::kFloat32,
                      {x[0], x[1] * x[2], y[3], y[4]}, node.name + ".pool");
  const int64_t plane = y[3] * y[4];
  read = reshaped(graph, n, read, {x[0], x[1], x[2], plane}, ".depth");
  ir::ops::Window depth = w;
  depth.kernel[1] = depth.stride[1] = depth.dilation[1] = 1;
  depth.pad_begin[1] = depth.pad_end[1] = 0;
  read = graph.insert(n, node.op->name, {read}, with_rest(window_over(depth, 0, 2)),
                      DType::kFloat32, {x[0], x[1], y[2], plane}, node.name + ".deep_pool");
  become_reshape(graph, n, read);
}

void resize(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const Shape x = graph.shape(node.inputs[0]), y = graph.shape(node.outputs[0]);
  const Attributes& a = node.attributes;
  if (x.size() != 5 || graph.dtype(node.inputs[0]) != DType::kFloat32 || element_count(y) == 0 ||
      x[0] != y[0] || x[1] != y[1] || a.integer("antialias", 0) != 0 || a.has("axes") ||
      a.text("keep_aspect_ratio_policy", "stretch") != "stretch" ||
      a.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize") {
    return;
  }
  std::vector<double> scales(5, 0);  // 0: the quotient of the sizes
  if (node.inputs.size() > 2 && node.inputs[2] != kNone) {
    const Tensor* given = graph.constant(node.inputs[2]);
    if (given == nullptr || (given->count() != 5 && given->count() != 0)) return;
    if (given->count() == 5) scales = given->as_doubles();
  }
  if (!context.allow("volume-resize", node.name)) return;
  const auto resized = [&](ValueId from, const Shape& to, double scale_h, double scale_w,
                           std::string_view what) {
    std::vector<ValueId> inputs{from, kNone};
    if (scale_h > 0) {
      Tensor both(DType::kFloat32, {4});
      const auto values = both.mutable_values<float>();
      values[0] = values[1] = 1;
      values[2] = static_cast<float>(scale_h);
      values[3] = static_cast<float>(scale_w);
      inputs.push_back(graph.add_constant("scales", std::move(both)));
    } else {
      inputs.insert(inputs.end(), {kNone, graph.add_constant("sizes", Tensor::int64s(to))});
    }
    return graph.insert(n, "Resize", inputs, a, DType::kFloat32, to, node.name + std::string(what));
  };
  ValueId read = reshaped(graph, n, node.inputs[0], {x[0], x[1] * x[2], x[3], x[4]}, ".planes");
  read = resized(read, {x[0], x[1] * x[2], y[3], y[4]}, scales[3], scales[4], ".resize");
  const int64_t plane = y[3] * y[4];
  read = reshaped(graph, n, read, {x[0], x[1], x[2], plane}, ".depth");
  read = resized(read, {x[0], x[1], y[2], plane}, scales[2], 1, ".deep_resize");
  become_reshape(graph, n, read);
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "Conv")) convolution(rewriter, n, context);
    if (rewriter.is(n, "MaxPool") || rewriter.is(n, "AveragePool")) pool(rewriter, n, context);
    if (rewriter.is(n, "Resize")) resize(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kSplitVolume{.name = "split-volume",
                        .summary = "windows over volumes as those over planes",
                        .rules = kRules,
                        .run = run};

}  // namespace stretto::passes
