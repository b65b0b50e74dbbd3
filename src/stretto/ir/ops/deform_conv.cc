// DeformConv: a convolution whose taps are moved by offsets and read between the pixels.
#include <cmath>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/table.h"
#include "stretto/ir/ops/window.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'},
                            {"W", kRealTypes, Arity::kRequired, 'T'},
                            {"offset", kRealTypes, Arity::kRequired, 'T'},
                            {"B", kRealTypes, Arity::kOptional, 'T'},
                            {"mask", kRealTypes, Arity::kOptional, 'T'}};
constexpr Port kOutputs[] = {{"Y", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {
    {"dilations", AttributeKind::kInts},    {"group", AttributeKind::kInt},
    {"kernel_shape", AttributeKind::kInts}, {"offset_group", AttributeKind::kInt},
    {"pads", AttributeKind::kInts},         {"strides", AttributeKind::kInts}};

struct Plan {
  Window window;
  int64_t group = 1, offset_group = 1;
};

Plan plan_of(const Attributes& attributes, const Shape& x, const Shape& w) {
  if (x.size() != 4 || w.size() != 4) {
    throw_invalid("X, W: expected images and kernels of two axes, got shapes {} and {}",
                  shape_text(x), shape_text(w));
  }
  const Shape kernel(w.begin() + 2, w.end());
  if (attributes.integers("kernel_shape", kernel) != kernel) {
    throw_invalid("kernel_shape: expected that of W, {}", shape_text(kernel));
  }
  Plan plan{.window = make_window(attributes, spatial_part(x, "X"), kernel),
            .group = attributes.integer("group", 1),
            .offset_group = attributes.integer("offset_group", 1)};
  if (plan.group < 1 || plan.offset_group < 1 || x[1] != w[1] * plan.group ||
      w[0] % plan.group != 0 || x[1] % plan.offset_group != 0) {
    throw_invalid("W: shape {} with {} groups does not fit X of shape {}", shape_text(w),
                  plan.group, shape_text(x));
  }
  return plan;
}

void infer(Inference& c) {
  const Shape &x = c.shape(0), &w = c.shape(1);
  const Plan plan = plan_of(c.attributes(), x, w);
  Shape y = plan.window.output_shape(x[0], w[0]);
  const int64_t taps = plan.offset_group * plan.window.kernel_size();
  const auto check = [&](int input, int64_t channels) {
    if (c.has_input(input) && c.shape(input) != Shape{x[0], channels, y[2], y[3]}) {
      throw_invalid("{}: expected shape {}, got {}", kInputs[input].name,
                    shape_text(Shape{x[0], channels, y[2], y[3]}), shape_text(c.shape(input)));
    }
  };
  check(2, 2 * taps);
  check(4, taps);
  if (c.has_input(3) && c.shape(3) != Shape{w[0]}) {
    throw_invalid("B: expected {} values, got shape {}", w[0], shape_text(c.shape(3)));
  }
  c.set_output(0, c.dtype(0), std::move(y));
}

// Zero outside the image.
template <typename T>
double between(const T* plane, int64_t height, int64_t width, double y, double x) {
  if (!(y > -1 && y < static_cast<double>(height) && x > -1 && x < static_cast<double>(width))) {
    return std::isnan(y) || std::isnan(x) ? std::nan("") : 0;
  }
  const double top = std::floor(y), left = std::floor(x);
  const double dy = y - top, dx = x - left;
  const auto at = [&](int64_t i, int64_t j) {
    const int64_t row = static_cast<int64_t>(top) + i, column = static_cast<int64_t>(left) + j;
    const bool inside = row >= 0 && row < height && column >= 0 && column < width;
    return inside ? static_cast<double>(plane[row * width + column]) : 0;
  };
  return (1 - dy) * ((1 - dx) * at(0, 0) + dx * at(0, 1)) +
         dy * ((1 - dx) * at(1, 0) + dx * at(1, 1));
}

void evaluate(Evaluation& c) {
  const Shape &x = c.inputs[0].shape(), &w = c.inputs[1].shape();
  const Plan plan = plan_of(c.attributes, x, w);
  const Window& window = plan.window;
  const int64_t pixels = window.output_size(), taps = window.kernel_size();
  const int64_t height = x[2], width = x[3];
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    const T* weights = data_of<T>(c.inputs[1]);
    const T* offsets = data_of<T>(c.inputs[2]);
    const T* bias = c.has_input(3) ? data_of<T>(c.inputs[3]) : nullptr;
    const T* mask = c.has_input(4) ? data_of<T>(c.inputs[4]) : nullptr;
    T* y = data_of<T>(c.make_output(0));
    parallel(c.team, x[0] * w[0] * pixels, 16, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t pixel = at % pixels, out = at / pixels % w[0], batch = at / pixels / w[0];
        const int64_t oy = pixel / window.output[2], ox = pixel % window.output[2];
        double sum = bias == nullptr ? 0 : static_cast<double>(bias[out]);
        for (int64_t i = 0; i < w[1]; ++i) {
          const int64_t channel = out / (w[0] / plan.group) * w[1] + i;
          const int64_t moved = channel / (x[1] / plan.offset_group);
          const T* plane = data_of<T>(c.inputs[0]) + (batch * x[1] + channel) * height * width;
          for (int64_t tap = 0; tap < taps; ++tap) {
            const int64_t place = (batch * plan.offset_group + moved) * taps + tap;
            const auto shift = [&](int64_t axis) {
              return static_cast<double>(offsets[(2 * place + axis) * pixels + pixel]);
            };
            const double value = between(
                plane, height, width,
                static_cast<double>(window.source(1, oy, tap / window.kernel[2])) + shift(0),
                static_cast<double>(window.source(2, ox, tap % window.kernel[2])) + shift(1));
            const double share =
                mask == nullptr ? 1 : static_cast<double>(mask[place * pixels + pixel]);
            sum += value * share * static_cast<double>(weights[(out * w[1] + i) * taps + tap]);
          }
        }
        y[at] = static_cast<T>(sum);
      }
    });
  });
}

double flops(const Graph& graph, const Node& node) {
  const Shape &y = *graph.value(node.outputs[0]).shape, &w = *graph.value(node.inputs[1]).shape;
  const auto per_pixel = static_cast<double>(element_count(std::span(w).subspan(1)));
  return 2 * per_pixel * static_cast<double>(element_count(y));
}

}  // namespace

const Operator kDeformConv{.name = "DeformConv",
                           .inputs = kInputs,
                           .outputs = kOutputs,
                           .attributes = kAttributes,
                           .infer = infer,
                           .evaluate = evaluate,
                           .flops = flops};

}  // namespace stretto::ir::ops
