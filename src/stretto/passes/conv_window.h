// The window of a convolution with everything spelled out.
#pragma once

#include <vector>

#include "stretto/passes/rewriter.h"

namespace stretto::passes {

struct ConvWindow {
  std::vector<int64_t> kernel, strides, dilations, pads;
};

// Attributes of Conv, or of ConvTranspose when `transposed`, with their defaults. The pads that
// auto_pad and output_shape stand for come from the shapes that inference found.
ConvWindow conv_window(const Rewriter& graph, const Node& node, bool transposed);

// `window` as attributes of stretto.Conv, for `group` groups.
Attributes window_attributes(const ConvWindow& window, int64_t group);

}  // namespace stretto::passes
