// Products of quantised tensors. Sums of products of 8-bit numbers are exact in float64 (and in the
// int32 that ONNX names), so convolutions run there.
#include "stretto/import/onnx/compose_quantized.h"

#include "stretto/base/error.h"

namespace stretto::onnx {
namespace {

using Id = ir::ValueId;

// x - zero in `dtype`; a zero point per row or column has one value per element of `axis`.
Id centred(Parts& parts, Id x, Id zero, DType dtype, int64_t axis) {
  x = parts.cast(x, dtype);
  if (zero == ir::kNone) return x;
  Id point = parts.cast(zero, dtype);
  const Shape shape = parts.shape(point);
  const auto rank = static_cast<int64_t>(parts.shape(x).size());
  if (shape.size() == 1 && axis < rank) {
    Shape column(static_cast<size_t>(rank - axis), 1);
    column[0] = shape[0];
    point = parts.reshape(point, column);
  }
  return parts.subtract(x, point);
}

Id integer_conv(Parts& parts, const PendingNode& node, size_t x, size_t x_zero, size_t w,
                size_t w_zero, size_t bias) {
  std::vector<Id> inputs{
      centred(parts, node.inputs[x], input_or_none(node, x_zero), DType::kFloat64, 1),
      centred(parts, node.inputs[w], input_or_none(node, w_zero), DType::kFloat64, 0)};
  if (bias != 0 && node.has_input(bias)) {
    inputs.push_back(parts.cast(node.inputs[bias], DType::kFloat64));
  }
  return parts.op("Conv", inputs, node.attributes);
}

// A list of scales as a column of the sums: one per element of their axis `axis`, counted from the
// end. One value becomes a scalar.
Id scale_of(Parts& parts, const PendingNode& node, size_t input, int64_t axis) {
  const Id scale = parts.cast(node.inputs[input], DType::kFloat32);
  const Shape shape = parts.shape(scale);
  if (element_count(shape) == 1) return parts.reshape(scale, {});
  if (shape.size() != 1 || axis == 1) return scale;
  Shape column(static_cast<size_t>(axis), 1);
  column[0] = shape[0];
  return parts.reshape(scale, column);
}

// sums * a_scale * b_scale / y_scale + y_zero, as the type of y_zero.
Id requantized(Parts& parts, const PendingNode& node, Id sums, int64_t a_axis, int64_t b_axis) {
  enum Input : size_t { kAScale = 1, kBScale = 4, kYScale = 6, kYZero = 7 };
  const Id factor = parts.divide(parts.multiply(scale_of(parts, node, kAScale, a_axis),
                                                scale_of(parts, node, kBScale, b_axis)),
                                 scale_of(parts, node, kYScale, a_axis));
  const Id scaled = parts.multiply(parts.cast(sums, DType::kFloat32), factor);
  const Id zero = node.inputs[kYZero];
  if (element_count(parts.shape(zero)) != 1) {
    node.unsupported("a zero point of the output for each row; one for all is supported");
  }
  return parts.op("QuantizeLinear", {scaled, parts.number(1, scaled), parts.reshape(zero, {})});
}

}  // namespace

ir::ValueId input_or_none(const PendingNode& node, size_t i) {
  return node.has_input(i) ? node.inputs[i] : ir::kNone;
}

Id as_scalar(Parts& parts, Id number) {
  return parts.shape(number).empty() ? number : parts.reshape(number, {});
}

Id integer_matmul(Parts& parts, const Quantized& a, const Quantized& b) {
  const auto rank = [&](Id id) { return static_cast<int64_t>(parts.shape(id).size()); };
  return parts.matmul(
      centred(parts, a.values, a.zero, DType::kInt32, std::max<int64_t>(rank(a.values) - 2, 0)),
      centred(parts, b.values, b.zero, DType::kInt32, rank(b.values) - 1));
}

Quantized dynamically_quantized(Parts& parts, Id x) {
  const Id zero = parts.number(0, x);
  std::vector<int64_t> axes(parts.shape(x).size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  const Id high = parts.op("Max", {parts.reduce("ReduceMax", x, axes, false), zero});
  const Id low = parts.op("Min", {parts.reduce("ReduceMin", x, axes, false), zero});
  const Id range = parts.subtract(high, low);
  const Id none = parts.op("Equal", {range, zero});  // then the scale is 1, as in ONNX Runtime
  const Id scale =
      parts.divide(parts.op("Where", {none, parts.number(255, x), range}), parts.number(255, x));
  const Id point = parts.op("QuantizeLinear", {parts.op("Neg", {low}), scale});
  return {parts.op("QuantizeLinear", {x, scale, point}), scale, point};
}

void compose_matmul_integer(PendingNode& node) {
  expect_inputs(node, 2);
  Parts parts(node);
  node.results = {integer_matmul(parts, {.values = node.inputs[0], .zero = input_or_none(node, 2)},
                                 {.values = node.inputs[1], .zero = input_or_none(node, 3)})};
}

void compose_qlinear_matmul(PendingNode& node) {
  expect_inputs(node, 8);
  Parts parts(node);
  const Id sums = integer_matmul(parts, {node.inputs[0], node.inputs[1], node.inputs[2]},
                                 {node.inputs[3], node.inputs[4], node.inputs[5]});
  node.results = {requantized(parts, node, sums, 2, 1)};  // rows of a, columns of b
}

void compose_conv_integer(PendingNode& node) {
  expect_inputs(node, 2);
  Parts parts(node);
  node.results = {parts.cast(integer_conv(parts, node, 0, 2, 1, 3, 0), DType::kInt32)};
}

void compose_qlinear_conv(PendingNode& node) {
  expect_inputs(node, 8);
  Parts parts(node);
  const Id sums = integer_conv(parts, node, 0, 2, 3, 5, 8);
  const auto rank = static_cast<int64_t>(parts.shape(sums).size());
  node.results = {requantized(parts, node, sums, rank - 1, rank - 1)};  // channels
}

void compose_dynamic_quantize(PendingNode& node) {
  expect_inputs(node, 1);
  Parts parts(node);
  const Quantized y = dynamically_quantized(parts, node.inputs[0]);
  node.results = {y.values, y.scale, y.zero};
}

}  // namespace stretto::onnx
