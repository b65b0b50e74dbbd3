// QuantizeLinear and DequantizeLinear: per tensor, per channel along `axis`, or per block of
// `block_size` elements along it.
#include <algorithm>
#include <cmath>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/table.h"
#include "stretto/tensor/narrow.h"

namespace stretto::ir::ops {
namespace {

constexpr TypeSet kQuantized =
    kFloat8Types | type_bit(DType::kFloat4E2M1) | type_bit(DType::kInt8) | type_bit(DType::kUInt8) |
    type_bit(DType::kInt16) | type_bit(DType::kUInt16) | type_bit(DType::kInt4) |
    type_bit(DType::kUInt4) | type_bit(DType::kInt2) | type_bit(DType::kUInt2);
constexpr TypeSet kInt32 = type_bit(DType::kInt32);
constexpr TypeSet kReal = kFloatTypes & ~type_bit(DType::kFloat64);
constexpr TypeSet kScaleTypes = kReal | type_bit(DType::kFloat8E8M0);

constexpr Port kQuantizeInputs[] = {{"x", kReal | kInt32},
                                    {"y_scale", kScaleTypes},
                                    {"y_zero_point", kQuantized, Arity::kOptional}};
constexpr Port kQuantizeOutputs[] = {{"y", kQuantized}};
constexpr AttributeSpec kQuantizeAttributes[] = {{"axis", AttributeKind::kInt},
                                                 {"block_size", AttributeKind::kInt},
                                                 {"output_dtype", AttributeKind::kString},
                                                 {"precision", AttributeKind::kString},
                                                 {"saturate", AttributeKind::kInt}};
constexpr Port kDequantizeInputs[] = {{"x", kQuantized | kInt32, Arity::kRequired, 'Q'},
                                      {"x_scale", kScaleTypes},
                                      {"x_zero_point", kQuantized | kInt32, Arity::kOptional, 'Q'}};
constexpr Port kDequantizeOutputs[] = {{"y", kReal}};
constexpr AttributeSpec kDequantizeAttributes[] = {{"axis", AttributeKind::kInt},
                                                   {"block_size", AttributeKind::kInt},
                                                   {"output_dtype", AttributeKind::kString}};

// Which scale an element has: that of its place along the axis, divided by the block.
struct Places {
  int64_t inner = 1, size = 1, block = 1, outer_scales = 1, axis_scales = 1, inner_scales = 1;

  int64_t operator()(int64_t element) const {
    const int64_t at = element / inner % size / block;
    return ((element / inner / size % outer_scales) * axis_scales + at) * inner_scales +
           element % inner % inner_scales;
  }
};

// Throws InvalidArgument when the scale's shape does not fit.
Places places_of(const Attributes& attributes, const Shape& x, const Shape& scale) {
  Places places;
  if (element_count(scale) == 1) {
    places.size = std::max<int64_t>(element_count(x), 1);
    places.block = places.size;
    return places;
  }
  const auto rank = static_cast<int64_t>(x.size());
  const int64_t axis = normalize_axis(attributes.integer("axis", 1), rank, "axis");
  const int64_t block = attributes.integer("block_size", 0);
  const std::span<const int64_t> all(x);
  places.inner = element_count(all.subspan(axis + 1));
  places.size = x[axis];
  if (block == 0) {
    if (scale != Shape{x[axis]}) {
      throw_invalid("scale: expected one value or {}, one per element of axis {}, got shape {}",
                    x[axis], axis, shape_text(scale));
    }
    places.axis_scales = x[axis];
    return places;
  }
  Shape expected = x;
  if (block > 0) expected[axis] = (x[axis] + block - 1) / block;
  if (block < 0 || scale != expected) {
    throw_invalid("scale: expected shape {} for blocks of {} along axis {}, got {}",
                  shape_text(expected), block, axis, shape_text(scale));
  }
  places.block = block;
  places.axis_scales = expected[axis];
  places.inner_scales = places.inner;
  places.outer_scales = std::max<int64_t>(element_count(all.subspan(0, axis)), 1);
  return places;
}

void check_scales(Inference& c, std::string_view zero_point) {
  places_of(c.attributes(), c.shape(0), c.shape(1));
  if (c.has_input(2) && element_count(c.shape(2)) != element_count(c.shape(1))) {
    throw_invalid("{}: expected the scale's shape {}, got {}", zero_point, shape_text(c.shape(1)),
                  shape_text(c.shape(2)));
  }
}

// By attribute: a type's name, or absent.
DType type_or(const Attributes& attributes, std::string_view name, DType fallback) {
  const std::string text = attributes.text(name, "");
  return text.empty() ? fallback : parse_dtype(text);
}

void infer_quantize(Inference& c) {
  check_scales(c, "y_zero_point");
  const DType dtype =
      c.has_input(2) ? c.dtype(2) : type_or(c.attributes(), "output_dtype", DType::kUInt8);
  if ((kQuantized & type_bit(dtype)) == 0) {
    throw_invalid("output_dtype: {} is no type to quantise to", dtype_name(dtype));
  }
  if (type_or(c.attributes(), "output_dtype", dtype) != dtype) {
    throw_invalid("output_dtype: expected that of y_zero_point, {}", dtype_name(dtype));
  }
  c.set_output(0, dtype, c.shape(0));
}

double rounded_to(DType precision, double value) {
  switch (precision) {
    case DType::kFloat16:
      return static_cast<double>(half_to_float(float_to_half(static_cast<float>(value))));
    case DType::kBFloat16:
      return static_cast<double>(bfloat16_to_float(float_to_bfloat16(static_cast<float>(value))));
    default:  // double too, which a float32 scale was widened to
      return static_cast<double>(static_cast<float>(value));
  }
}

// Quotients are rounded to `precision`, so that ties are where ONNX has them.
void evaluate_quantize(Evaluation& c) {
  const Tensor &x = c.inputs[0], &scale = c.inputs[1];
  const DType to = c.output_dtypes[0];
  const Places place = places_of(c.attributes, x.shape(), scale.shape());
  const DType precision = type_or(c.attributes, "precision", DType::kFloat32);
  const std::vector<double> from = x.as_doubles(), scales = scale.as_doubles();
  const std::vector<double> zeros =
      c.has_input(2) ? c.inputs[2].as_doubles() : std::vector<double>(scales.size(), 0);
  std::vector<double> y(from.size());
  const bool to_float = is_float(to);
  const auto [low, high] = to_float ? std::pair(0.0, 0.0) : integer_range(to);
  for (size_t i = 0; i < y.size(); ++i) {
    const auto at = static_cast<size_t>(place(static_cast<int64_t>(i)));
    const double quotient = rounded_to(precision, from[i] / scales[at]);
    if (to_float) {
      y[i] = quotient + zeros[at];
    } else {
      y[i] = std::isnan(quotient)
                 ? 0
                 : std::clamp(formulas::round_even(quotient) + zeros[at], low, high);
    }
  }
  const Tensor wide = Tensor::of<double>(x.shape(), y);
  c.outputs[0] = is_narrow(to)
                     ? narrowed(wide, to, {.saturate = c.attributes.integer("saturate", 1) != 0})
                     : wide.converted(to);
}

void infer_dequantize(Inference& c) {
  check_scales(c, "x_zero_point");
  const DType scale = c.dtype(1) == DType::kFloat8E8M0 ? DType::kFloat32 : c.dtype(1);
  const DType dtype = type_or(c.attributes(), "output_dtype", scale);
  if ((kReal & type_bit(dtype)) == 0) {
    throw_invalid("output_dtype: expected a float type, got {}", dtype_name(dtype));
  }
  c.set_output(0, dtype, c.shape(0));
}

void evaluate_dequantize(Evaluation& c) {
  const Tensor &x = c.inputs[0], &scale = c.inputs[1];
  const Places place = places_of(c.attributes, x.shape(), scale.shape());
  const std::vector<double> from = x.as_doubles(), scales = scale.as_doubles();
  const std::vector<double> zeros =
      c.has_input(2) ? c.inputs[2].as_doubles() : std::vector<double>(scales.size(), 0);
  std::vector<double> y(from.size());
  for (size_t i = 0; i < y.size(); ++i) {
    const auto at = static_cast<size_t>(place(static_cast<int64_t>(i)));
    y[i] = (from[i] - zeros[at]) * scales[at];
  }
  c.outputs[0] = Tensor::of<double>(x.shape(), y).converted(c.output_dtypes[0]);
}

}  // namespace

const Operator kDequantizeLinear{.name = "DequantizeLinear",
                                 .inputs = kDequantizeInputs,
                                 .outputs = kDequantizeOutputs,
                                 .attributes = kDequantizeAttributes,
                                 .infer = infer_dequantize,
                                 .evaluate = evaluate_dequantize};

const Operator kQuantizeLinear{.name = "QuantizeLinear",
                               .inputs = kQuantizeInputs,
                               .outputs = kQuantizeOutputs,
                               .attributes = kQuantizeAttributes,
                               .infer = infer_quantize,
                               .evaluate = evaluate_quantize};

}  // namespace stretto::ir::ops
