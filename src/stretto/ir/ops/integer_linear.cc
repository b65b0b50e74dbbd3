// stretto.IntegerLinear: 8-bit rows, less their zero point, times an 8-bit weight; the exact sums
// are scaled to floats and get a bias.
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/matrix_product.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr TypeSet kBytes = type_bit(DType::kInt8) | type_bit(DType::kUInt8);

constexpr Port kInputs[] = {{"x", kBytes, Arity::kRequired, 'Q'},
                            {"weight", type_bit(DType::kInt8)},
                            {"scale", kRealTypes, Arity::kRequired, 'T'},
                            {"zero_point", kBytes, Arity::kOptional, 'Q'},
                            {"bias", kRealTypes, Arity::kOptional, 'T'}};
constexpr Port kOutputs[] = {{"y", kRealTypes, Arity::kRequired, 'T'}};

void infer(Inference& c) {
  const Shape& weight = c.shape(1);
  if (weight.size() != 2) throw_invalid("weight: expected a matrix, got {}", shape_text(weight));
  if (c.rank(0) < 1) throw_invalid("x: expected at least one axis, got a scalar");
  Shape shape = c.shape(0);
  if (shape.back() != weight[0]) {
    throw_invalid("weight takes rows of {}, x of shape {} has rows of {}", weight[0],
                  shape_text(shape), shape.back());
  }
  shape.back() = weight[1];
  const Shape columns{weight[1]};
  if (!c.shape(2).empty() && c.shape(2) != columns) {
    throw_invalid("scale: expected one value or {}, got shape {}", weight[1],
                  shape_text(c.shape(2)));
  }
  if (c.has_input(3) && !c.shape(3).empty()) {
    throw_invalid("zero_point: expected a scalar, got shape {}", shape_text(c.shape(3)));
  }
  if (c.has_input(4) && c.shape(4) != columns) {
    throw_invalid("bias: expected {} values, got shape {}", weight[1], shape_text(c.shape(4)));
  }
  c.set_output(0, c.dtype(2), std::move(shape));
}

void evaluate(Evaluation& c) {
  const int64_t k = c.inputs[0].shape().back(), n = c.output_shapes[0].back();
  const double zero = c.has_input(3) ? c.inputs[3].as_doubles()[0] : 0;
  std::vector<double> x = c.inputs[0].as_doubles();
  for (double& value : x) value -= zero;
  const std::vector<double> weight = c.inputs[1].as_doubles(), scale = c.inputs[2].as_doubles();
  std::vector<double> bias(static_cast<size_t>(n), 0.0);
  if (c.has_input(4)) bias = c.inputs[4].as_doubles();
  Tensor sums(DType::kFloat64, c.output_shapes[0]);
  double* sum = data_of<double>(sums);
  const Product product{.m = n == 0 ? 0 : sums.count() / n,
                        .n = n,
                        .k = k,
                        .a = matrix_rows(x.data(), k, 1),
                        .b = matrix_rows(weight.data(), n, 1),
                        .c = sum,
                        .row_stride = n};
  accumulate_products({&product, 1}, c.team);
  for (int64_t i = 0; i < sums.count(); ++i) {
    const auto column = static_cast<size_t>(i % n);
    sum[i] = sum[i] * scale[scale.size() == 1 ? 0 : column] + bias[column];
  }
  c.outputs[0] = sums.converted(c.output_dtypes[0]);
}

double flops(const Graph& graph, const Node& node) {
  return 2.0 * static_cast<double>(element_count(*graph.value(node.outputs[0]).shape)) *
         static_cast<double>(graph.value(node.inputs[0]).shape->back());
}

}  // namespace

const Operator kIntegerLinear{.name = "stretto.IntegerLinear",
                              .inputs = kInputs,
                              .outputs = kOutputs,
                              .attributes = {},
                              .infer = infer,
                              .evaluate = evaluate,
                              .flops = flops};

}  // namespace stretto::ir::ops
