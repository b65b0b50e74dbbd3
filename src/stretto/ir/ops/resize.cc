// Resize: nearest, linear and cubic interpolation, all separable, so one axis is done at a time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stretto/ir/ops/axes.h"
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"X", kRealOrInteger, Arity::kRequired, 'T'},
                            {"roi", kRealTypes, Arity::kOptional},
                            {"scales", kRealTypes, Arity::kOptional},
                            {"sizes", type_bit(DType::kInt64), Arity::kOptional}};
constexpr Port kOutputs[] = {{"Y", kRealOrInteger, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {{"antialias", AttributeKind::kInt},
                                         {"axes", AttributeKind::kInts},
                                         {"coordinate_transformation_mode", AttributeKind::kString},
                                         {"cubic_coeff_a", AttributeKind::kFloat},
                                         {"exclude_outside", AttributeKind::kInt},
                                         {"extrapolation_value", AttributeKind::kFloat},
                                         {"keep_aspect_ratio_policy", AttributeKind::kString},
                                         {"mode", AttributeKind::kString},
                                         {"nearest_mode", AttributeKind::kString}};

enum class Coordinates {
  kHalfPixel,
  kHalfPixelSymmetric,
  kPytorchHalfPixel,
  kAlignCorners,
  kAsymmetric,
  kCropAndResize
};
enum class Interpolation { kNearest, kLinear, kCubic };
enum class Nearest { kPreferFloor, kPreferCeil, kFloor, kCeil };
enum class Aspect { kStretch, kNotLarger, kNotSmaller };

// The position of an attribute's text among the names it may have; the first is the default.
template <typename Enum, size_t kCount>
Enum choice(const Attributes& attributes, std::string_view attribute,
            const std::string_view (&names)[kCount]) {
  const std::string text = attributes.text(attribute, names[0]);
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  throw_invalid("{}: expected one of {}, got {}", attribute, fmt::join(names, ", "), text);
}

constexpr std::string_view kCoordinateNames[] = {"half_pixel",         "half_pixel_symmetric",
                                                 "pytorch_half_pixel", "align_corners",
                                                 "asymmetric",         "tf_crop_and_resize"};
constexpr std::string_view kInterpolationNames[] = {"nearest", "linear", "cubic"};
constexpr std::string_view kNearestNames[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                              "ceil"};
constexpr std::string_view kAspectNames[] = {"stretch", "not_larger", "not_smaller"};

// One axis that changes: out = in * scale, perhaps rounded, over the region [begin, end].
struct Axis {
  int64_t axis, in, out;
  double scale;
  double begin = 0, end = 1;  // of the input's length, with tf_crop_and_resize
};

// All listed axes. Exactly one of `scales` and `sizes` is given.
std::vector<Axis> plan_axes(const Attributes& attributes, const Shape& shape,
                            const std::vector<double>& scales, const std::vector<int64_t>& sizes) {
  std::vector<int64_t> all;
  for (size_t i = 0; i < shape.size(); ++i) all.push_back(static_cast<int64_t>(i));
  const std::vector<int64_t> axes =
      normalized_axes(attributes.integers("axes", all), static_cast<int64_t>(shape.size()));
  if (scales.empty() == sizes.empty()) {
    throw_invalid("scales, sizes: expected exactly one of them");
  }
  if (std::max(scales.size(), sizes.size()) != axes.size()) {
    throw_invalid("{}: expected {} values, one per axis, got {}",
                  scales.empty() ? "sizes" : "scales", axes.size(),
                  std::max(scales.size(), sizes.size()));
  }
  std::vector<Axis> plan;
  for (size_t i = 0; i < axes.size(); ++i) {
    Axis axis{axes[i], shape[axes[i]], 0, 1};
    if (!scales.empty()) {
      axis.scale = scales[i];
      if (!(axis.scale > 0)) throw_invalid("scales: expected positive values, got {}", axis.scale);
      // In single precision, as the scales were stored: 0.7f * 10 is 7 only there.
      const float out = static_cast<float>(axis.in) * static_cast<float>(axis.scale);
      if (!(out <= static_cast<float>(kMaxElements))) throw_invalid("scales: {} is too large", out);
      axis.out = static_cast<int64_t>(std::floor(out));
    } else {
      axis.out = sizes[i];
      if (axis.out < 0) throw_invalid("sizes: expected values of at least 0, got {}", axis.out);
      axis.scale = static_cast<double>(axis.out) / static_cast<double>(axis.in);
    }
    if (axis.in == 0 && axis.out != 0) throw_invalid("X: axis {} is empty", axis.axis);
    plan.push_back(axis);
  }
  const auto aspect = choice<Aspect>(attributes, "keep_aspect_ratio_policy", kAspectNames);
  if (aspect != Aspect::kStretch && !sizes.empty() && !plan.empty()) {
    double scale = plan[0].scale;
    for (const Axis& axis : plan) {
      scale =
          aspect == Aspect::kNotLarger ? std::min(scale, axis.scale) : std::max(scale, axis.scale);
    }
    for (Axis& axis : plan) {
      const double out = std::floor(scale * static_cast<double>(axis.in) + 0.5);
      if (!(out <= static_cast<double>(kMaxElements))) throw_invalid("sizes: {} is too large", out);
      axis.scale = scale;
      axis.out = static_cast<int64_t>(out);
    }
  }
  return plan;
}

void infer(Inference& c) {
  choice<Coordinates>(c.attributes(), "coordinate_transformation_mode", kCoordinateNames);
  choice<Interpolation>(c.attributes(), "mode", kInterpolationNames);
  choice<Nearest>(c.attributes(), "nearest_mode", kNearestNames);
  std::vector<double> scales;
  std::vector<int64_t> sizes;
  // Exporters leave unused inputs as empty tensors.
  if (c.has_input(2) && element_count(c.shape(2)) > 0) {
    const Tensor* tensor = c.constant(2);
    if (tensor == nullptr) c.constant_integers(2, "scales");
    scales = tensor->as_doubles();
  }
  if (c.has_input(3) && element_count(c.shape(3)) > 0) sizes = c.constant_integers(3, "sizes");
  Shape shape = c.shape(0);
  for (const Axis& axis : plan_axes(c.attributes(), shape, scales, sizes)) {
    shape[axis.axis] = axis.out;
  }
  c.set_output(0, c.dtype(0), std::move(shape));
}

// The input coordinate that output `o` asks for, in the arithmetic of T: a nearest neighbour is
// what single precision says it is, as exporters and other runtimes have it, because a scale of one
// third puts coordinates right between two pixels.
template <typename T>
T coordinate(Coordinates mode, const Axis& axis, int64_t o) {
  const auto x = static_cast<T>(o), in = static_cast<T>(axis.in), out = static_cast<T>(axis.out),
             scale = static_cast<T>(axis.scale), begin = static_cast<T>(axis.begin),
             end = static_cast<T>(axis.end);
  const T half = (x + T(0.5)) / scale - T(0.5);
  switch (mode) {
    case Coordinates::kHalfPixel:
      return half;
    case Coordinates::kHalfPixelSymmetric:
      return in / 2 * (1 - out / (scale * in)) + half;
    case Coordinates::kPytorchHalfPixel:
      return axis.out > 1 ? half : 0;
    case Coordinates::kAlignCorners:
      return axis.out > 1 ? x * (in - 1) / (out - 1) : 0;
    case Coordinates::kAsymmetric:
      return x / scale;
    case Coordinates::kCropAndResize:
      return axis.out > 1 ? begin * (in - 1) + x * (end - begin) * (in - 1) / (out - 1)
                          : (begin + end) / 2 * (in - 1);
  }
  return 0;
}

int64_t nearest(Nearest mode, double x) {
  switch (mode) {
    case Nearest::kPreferFloor:
      return static_cast<int64_t>(std::ceil(x - 0.5));
    case Nearest::kPreferCeil:
      return static_cast<int64_t>(std::floor(x + 0.5));
    case Nearest::kFloor:
      return static_cast<int64_t>(std::floor(x));
    case Nearest::kCeil:
      return static_cast<int64_t>(std::ceil(x));
  }
  return 0;
}

// The weight of an input at distance d: triangle, or Keys' cubic convolution (1981).
double kernel(Interpolation mode, double d, double a) {
  d = std::fabs(d);
  if (mode == Interpolation::kLinear) return std::max(1 - d, 0.0);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// What one output takes from the input.
struct Taps {
  std::vector<int64_t> index;
  std::vector<double> weight;
  bool outside = false;  // the extrapolation value instead
};

// Linear weights of bytes are multiples of this, so that sums of their products are exact: equal
// neighbours keep their value, and kernels that add in another order round to the same bytes.
constexpr double kByteWeightUnit = 1.0 / (1 << 22);

std::vector<Taps> taps_of(const Attributes& attributes, const Axis& axis, bool bytes) {
  const auto coordinates =
      choice<Coordinates>(attributes, "coordinate_transformation_mode", kCoordinateNames);
  const auto mode = choice<Interpolation>(attributes, "mode", kInterpolationNames);
  const auto rounding = choice<Nearest>(attributes, "nearest_mode", kNearestNames);
  const double a = attributes.number("cubic_coeff_a", -0.75);
  const bool exclude = attributes.integer("exclude_outside", 0) != 0;
  // Shrinking with antialias widens the kernel so that every input counts.
  const bool antialias = attributes.integer("antialias", 0) != 0;
  const double stretch = antialias ? std::min(axis.scale, 1.0) : 1;
  const auto radius =
      static_cast<int64_t>(std::ceil((mode == Interpolation::kCubic ? 2 : 1) / stretch));
  std::vector<Taps> all(static_cast<size_t>(axis.out));
  for (int64_t o = 0; o < axis.out; ++o) {
    Taps& taps = all[o];
    const double asked = mode == Interpolation::kNearest
                             ? double{coordinate<float>(coordinates, axis, o)}
                             : coordinate<double>(coordinates, axis, o);
    // A region of interest may say anything: far outside, every coordinate sees the same border.
    constexpr auto kFar = static_cast<double>(2 * kMaxElements);
    const double x = std::isnan(asked) ? -kFar : std::clamp(asked, -kFar, kFar);
    taps.outside = coordinates == Coordinates::kCropAndResize &&
                   (x < 0 || x > static_cast<double>(axis.in - 1));
    const auto inside = [&](int64_t i) { return std::clamp<int64_t>(i, 0, axis.in - 1); };
    if (mode == Interpolation::kNearest) {
      taps.index = {inside(nearest(rounding, x))};
      taps.weight = {1};
      continue;
    }
    const auto middle = static_cast<int64_t>(std::floor(x));
    if (bytes && mode == Interpolation::kLinear && !antialias) {
      const double second = std::round((x - std::floor(x)) / kByteWeightUnit) * kByteWeightUnit;
      taps.index = {inside(middle), inside(middle + 1)};
      taps.weight = {1 - second, second};
      continue;
    }
    double sum = 0;
    for (int64_t i = middle - radius + 1; i <= middle + radius; ++i) {
      const double weight = kernel(mode, (static_cast<double>(i) - x) * stretch, a);
      if (weight == 0 || (exclude && i != inside(i))) continue;
      taps.index.push_back(inside(i));
      taps.weight.push_back(weight);
      sum += weight;
    }
    if (antialias || exclude) {
      for (double& weight : taps.weight) weight /= sum;
    }
  }
  return all;
}

Tensor resize_axis(const Tensor& x, const AxisView& view, const std::vector<Taps>& taps,
                   ThreadTeam* team) {
  const auto out = static_cast<int64_t>(taps.size());
  Tensor y(DType::kFloat64, {view.outer, out, view.inner});
  parallel(team, view.outer * out, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const Taps& t = taps[row % out];
      double* to = data_of<double>(y) + row * view.inner;
      for (size_t k = 0; k < t.index.size(); ++k) {
        const double* from = data_of<double>(x) + (row / out * view.size + t.index[k]) * view.inner;
        for (int64_t i = 0; i < view.inner; ++i) to[i] += t.weight[k] * from[i];
      }
    }
  });
  return y;
}

void evaluate(Evaluation& c) {
  std::vector<double> scales, roi;
  std::vector<int64_t> sizes;
  if (c.has_input(1)) roi = c.inputs[1].as_doubles();
  if (c.has_input(2) && c.inputs[2].count() > 0) scales = c.inputs[2].as_doubles();
  if (c.has_input(3) && c.inputs[3].count() > 0) sizes = c.inputs[3].as_int64s();
  Shape shape = c.inputs[0].shape();
  std::vector<Axis> plan = plan_axes(c.attributes, shape, scales, sizes);
  if (roi.size() == 2 * plan.size()) {
    for (size_t i = 0; i < plan.size(); ++i) {
      plan[i].begin = roi[i];
      plan[i].end = roi[plan.size() + i];
    }
  }
  const DType dtype = c.inputs[0].dtype();
  Tensor values = c.inputs[0].converted(DType::kFloat64);
  // Which outputs the extrapolation value replaces, by axis.
  std::vector<std::vector<Taps>> taps(shape.size());
  for (const Axis& axis : plan) {
    const bool crops =
        c.attributes.text("coordinate_transformation_mode", "") == "tf_crop_and_resize";
    if (axis.in == axis.out && axis.scale == 1 && !crops) continue;
    taps[axis.axis] = taps_of(c.attributes, axis, dtype == DType::kUInt8 || dtype == DType::kInt8);
    values = resize_axis(values, AxisView(shape, axis.axis), taps[axis.axis], c.team);
    shape[axis.axis] = axis.out;
  }
  const double outside = c.attributes.number("extrapolation_value", 0);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const AxisView view(shape, static_cast<int64_t>(axis));
    for (size_t o = 0; o < taps[axis].size(); ++o) {
      if (!taps[axis][o].outside) continue;
      for (int64_t i = 0; i < view.outer; ++i) {
        std::fill_n(
            data_of<double>(values) + (i * view.size + static_cast<int64_t>(o)) * view.inner,
            view.inner, outside);
      }
    }
  }
  Tensor& out = make_output_like(c, 0, c.inputs[0]);
  with_type<kRealOrInteger>(dtype, [&]<typename T>() {
    const double* from = data_of<double>(values);
    for (int64_t i = 0; i < out.count(); ++i) data_of<T>(out)[i] = static_cast<T>(from[i]);
  });
}

}  // namespace

const Operator kResize{.name = "Resize",
                       .inputs = kInputs,
                       .outputs = kOutputs,
                       .attributes = kAttributes,
                       .infer = infer,
                       .evaluate = evaluate};

}  // namespace stretto::ir::ops
