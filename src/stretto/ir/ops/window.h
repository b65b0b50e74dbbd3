// The sliding window of convolutions and pools over one to three spatial axes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "stretto/ir/graph.h"

namespace stretto::ir::ops {

// Always three axes (depth, height, width); the missing leading ones have extent 1 and no padding,
// so that loops need one form only.
struct Window {
  using Axes = std::array<int64_t, 3>;
  Axes input{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1};
  Axes pad_begin{0, 0, 0}, pad_end{0, 0, 0}, output{1, 1, 1};
  int rank = 0;  // spatial axes that really exist

  Shape output_shape(int64_t batch, int64_t channels) const;
  int64_t input_size() const { return input[0] * input[1] * input[2]; }
  int64_t kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t output_size() const { return output[0] * output[1] * output[2]; }

  // The outputs [begin, end) along `axis` for which tap `k` falls inside the input.
  struct Valid {
    int64_t begin, end;
  };
  Valid valid(int axis, int64_t k) const;
  // The taps of output `o` along `axis` that fall inside the input.
  Valid taps(int axis, int64_t o) const;
  // The input coordinate that tap `k` of output `o` reads, perhaps outside.
  int64_t source(int axis, int64_t o, int64_t k) const {
    return o * stride[axis] - pad_begin[axis] + k * dilation[axis];
  }
};

// From the attributes auto_pad, dilations, pads, strides (and ceil_mode) over inputs [n, c, ...].
// Throws InvalidArgument for values that are not positive, of a wrong count, or for a kernel larger
// than the padded input.
Window make_window(const Attributes& attributes, std::span<const int64_t> input,
                   std::span<const int64_t> kernel, bool ceil_mode = false);

// An attribute with one value >= `least` per spatial axis, right-aligned into three axes.
Window::Axes spatial_attribute(const Attributes& attributes, std::string_view name, int rank,
                               int64_t fallback, int64_t least);

// Reads "pads" into begin and end: non-negative, two per axis.
void read_pads(const Attributes& attributes, Window& window);

// auto_pad; throws InvalidArgument unless NOTSET, VALID, SAME_UPPER or SAME_LOWER.
std::string auto_pad_mode(const Attributes& attributes);

// The spatial part of [n, c, ...]: 1 to 3 axes, or InvalidArgument.
std::span<const int64_t> spatial_part(const Shape& shape, std::string_view what);

}  // namespace stretto::ir::ops
