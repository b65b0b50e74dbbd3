#include "stretto/ir/ops/window.h"

#include <algorithm>

#include "stretto/base/error.h"

namespace stretto::ir::ops {
namespace {

// Larger strides, pads or dilations are mistakes, and products of smaller ones cannot overflow.
constexpr int64_t kLargest = int64_t{1} << 30;

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

Shape Window::output_shape(int64_t batch, int64_t channels) const {
  Shape shape{batch, channels};
  shape.insert(shape.end(), output.end() - rank, output.end());
  return shape;
}

Window::Valid Window::valid(int axis, int64_t k) const {
  const int64_t offset = source(axis, 0, k), s = stride[axis];
  const int64_t first = offset >= 0 ? 0 : ceil_div(-offset, s);
  const int64_t last = offset >= input[axis] ? 0 : (input[axis] - 1 - offset) / s + 1;
  // A tap may fall into the padding for every output.
  const int64_t begin = std::min(first, output[axis]);
  return {begin, std::max(std::min(last, output[axis]), begin)};
}

Window::Valid Window::taps(int axis, int64_t o) const {
  const int64_t offset = source(axis, o, 0), d = dilation[axis];
  const int64_t begin = std::min(offset >= 0 ? 0 : ceil_div(-offset, d), kernel[axis]);
  const int64_t end = offset >= input[axis] ? 0 : (input[axis] - 1 - offset) / d + 1;
  return {begin, std::clamp(end, begin, kernel[axis])};
}

Window::Axes spatial_attribute(const Attributes& attributes, std::string_view name, int rank,
                               int64_t fallback, int64_t least) {
  Window::Axes axes{fallback, fallback, fallback};
  const std::vector<int64_t> values =
      attributes.integers(name, std::vector<int64_t>(static_cast<size_t>(rank), fallback));
  if (static_cast<int>(values.size()) != rank) {
    throw_invalid("{}: expected {} values, one per spatial axis, got {}", name, rank,
                  values.size());
  }
  for (int i = 0; i < rank; ++i) {
    if (values[i] < least || values[i] > kLargest) {
      throw_invalid("{}: expected values of at least {}, got {}", name, least, values[i]);
    }
    axes[3 - rank + i] = values[i];
  }
  return axes;
}

void read_pads(const Attributes& attributes, Window& window) {
  const int rank = window.rank;
  const std::vector<int64_t> pads =
      attributes.integers("pads", std::vector<int64_t>(2 * static_cast<size_t>(rank), 0));
  if (static_cast<int>(pads.size()) != 2 * rank) {
    throw_invalid("pads: expected {} values, begin and end of {} spatial axes, got {}", 2 * rank,
                  rank, pads.size());
  }
  for (int i = 0; i < 2 * rank; ++i) {
    if (pads[i] < 0 || pads[i] > kLargest) {
      throw_invalid("pads: expected non-negative values, got {}", pads[i]);
    }
    (i < rank ? window.pad_begin : window.pad_end)[3 - rank + i % rank] = pads[i];
  }
}

std::string auto_pad_mode(const Attributes& attributes) {
  std::string mode = attributes.text("auto_pad", "NOTSET");
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    throw_invalid("auto_pad: expected NOTSET, VALID, SAME_UPPER or SAME_LOWER, got {}", mode);
  }
  return mode;
}

std::span<const int64_t> spatial_part(const Shape& shape, std::string_view what) {
  if (shape.size() < 3 || shape.size() > 5) {
    throw_invalid("{}: expected shape [batch, channels, 1 to 3 spatial axes], got {}", what,
                  shape_text(shape));
  }
  return std::span(shape).subspan(2);
}

Window make_window(const Attributes& attributes, std::span<const int64_t> input,
                   std::span<const int64_t> kernel, bool ceil_mode) {
  Window w;
  w.rank = static_cast<int>(input.size());
  if (kernel.size() != input.size()) {
    throw_invalid("kernel: expected {} spatial axes as in the input, got {}", input.size(),
                  kernel.size());
  }
  std::copy(input.begin(), input.end(), w.input.end() - w.rank);
  std::copy(kernel.begin(), kernel.end(), w.kernel.end() - w.rank);
  w.stride = spatial_attribute(attributes, "strides", w.rank, 1, 1);
  w.dilation = spatial_attribute(attributes, "dilations", w.rank, 1, 1);
  const std::string mode = auto_pad_mode(attributes);
  if (mode == "NOTSET") read_pads(attributes, w);

  for (int axis = 3 - w.rank; axis < 3; ++axis) {
    const int64_t in = w.input[axis], stride = w.stride[axis];
    if (w.kernel[axis] < 1 || w.kernel[axis] > kLargest) {
      throw_invalid("kernel: expected positive extents, got {}", shape_text(kernel));
    }
    const int64_t reach = (w.kernel[axis] - 1) * w.dilation[axis] + 1;
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      w.output[axis] = ceil_div(in, stride);
      const int64_t pad = std::max<int64_t>((w.output[axis] - 1) * stride + reach - in, 0);
      w.pad_begin[axis] = mode == "SAME_UPPER" ? pad / 2 : pad - pad / 2;
      w.pad_end[axis] = pad - w.pad_begin[axis];
      continue;
    }
    const int64_t room = in + w.pad_begin[axis] + w.pad_end[axis] - reach;
    // The only window may hang over the end too.
    if (room < 0 && (!ceil_mode || room <= -stride)) {
      throw_invalid(
          "kernel {} with dilation {} spans {} inputs, but spatial axis {} has {} of them "
          "with padding",
          w.kernel[axis], w.dilation[axis], reach, axis - 3 + w.rank, reach + room);
    }
    w.output[axis] = (ceil_mode ? ceil_div(room, stride) : room / stride) + 1;
    // A window that begins in the padding at the end would see no input at all.
    if (ceil_mode && (w.output[axis] - 1) * stride >= in + w.pad_begin[axis]) --w.output[axis];
  }
  return w;
}

}  // namespace stretto::ir::ops
