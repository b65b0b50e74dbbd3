// stretto.Linear: rows times a weight, with an epilogue.
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/epilogue.h"
#include "stretto/ir/ops/matrix_product.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"x", kRealTypes, Arity::kRequired, 'T'},
                            {"weight", kRealTypes, Arity::kRequired, 'T'},
                            {"bias", kRealTypes, Arity::kOptional, 'T'},
                            {"residual", kRealTypes, Arity::kOptional, 'T'}};
constexpr Port kOutputs[] = {{"y", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kOwnAttributes[] = {{"trans_weight", AttributeKind::kInt}};
constexpr auto kAttributes = with_epilogue(kOwnAttributes);

void infer(Inference& c) {
  const Shape& weight = c.shape(1);
  if (weight.size() != 2) throw_invalid("weight: expected a matrix, got {}", shape_text(weight));
  if (c.rank(0) < 1) throw_invalid("x: expected at least one axis, got a scalar");
  const bool transposed = c.attributes().integer("trans_weight", 0) != 0;
  const int64_t k = weight[transposed ? 1 : 0], n = weight[transposed ? 0 : 1];
  Shape shape = c.shape(0);
  if (shape.back() != k) {
    throw_invalid("weight takes rows of {}, x of shape {} has rows of {}", k, shape_text(shape),
                  shape.back());
  }
  shape.back() = n;
  check_epilogue(c, shape, n);
  c.set_output(0, c.dtype(0), std::move(shape));
}

void evaluate(Evaluation& c) {
  const bool transposed = c.attributes.integer("trans_weight", 0) != 0;
  const int64_t k = c.inputs[0].shape().back(), n = c.output_shapes[0].back();
  Tensor sums(DType::kFloat64, c.output_shapes[0]);
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    const T* weight = data_of<T>(c.inputs[1]);
    const Product product{.m = n == 0 ? 0 : sums.count() / n,
                          .n = n,
                          .k = k,
                          .a = matrix_rows(data_of<T>(c.inputs[0]), k, 1),
                          .b = transposed ? matrix_rows(weight, 1, k) : matrix_rows(weight, n, 1),
                          .c = data_of<double>(sums),
                          .row_stride = n};
    accumulate_products({&product, 1}, c.team);
  });
  finish(c, sums, sums.rank() - 1);
}

double flops(const Graph& graph, const Node& node) {
  double sum = 2;
  for (int64_t dim : *graph.value(node.outputs[0]).shape) sum *= static_cast<double>(dim);
  return sum * static_cast<double>(graph.value(node.inputs[0]).shape->back());
}

}  // namespace

const Operator kLinear{.name = "stretto.Linear",
                       .inputs = kInputs,
                       .outputs = kOutputs,
                       .attributes = kAttributes,
                       .infer = infer,
                       .evaluate = evaluate,
                       .flops = flops};

}  // namespace stretto::ir::ops
