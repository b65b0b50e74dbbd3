#include "stretto/passes/conv_window.h"

#include <algorithm>

namespace stretto::passes {
namespace {

void resolve_pads(const Rewriter& graph, const Node& node, bool transposed, ConvWindow& w) {
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

}  // namespace

ConvWindow conv_window(const Rewriter& graph, const Node& node, bool transposed) {
  const Shape& weight = graph.shape(node.inputs[1]);
  const size_t spatial = weight.size() - 2;
  const Attributes& a = node.attributes;
  ConvWindow window{.kernel = {weight.begin() + 2, weight.end()},
                    .strides = a.integers("strides", std::vector<int64_t>(spatial, 1)),
                    .dilations = a.integers("dilations", std::vector<int64_t>(spatial, 1)),
                    .pads = a.integers("pads", std::vector<int64_t>(2 * spatial, 0))};
  resolve_pads(graph, node, transposed, window);
  return window;
}

Attributes window_attributes(const ConvWindow& window, int64_t group) {
  Attributes attributes;
  attributes.set("kernel_shape", window.kernel);
  attributes.set("strides", window.strides);
  attributes.set("dilations", window.dilations);
  attributes.set("pads", window.pads);
  attributes.set("group", group);
  return attributes;
}

}  // namespace stretto::passes
