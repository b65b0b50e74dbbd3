// Gemm: alpha * A' B' + beta * C, where ' transposes on request.
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/matrix_product.h"
#include "stretto/ir/ops/strided.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"A", kRealTypes, Arity::kRequired, 'T'},
                            {"B", kRealTypes, Arity::kRequired, 'T'},
                            {"C", kRealTypes, Arity::kOptional, 'T'}};
constexpr Port kOutputs[] = {{"Y", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {{"alpha", AttributeKind::kFloat},
                                         {"beta", AttributeKind::kFloat},
                                         {"transA", AttributeKind::kInt},
                                         {"transB", AttributeKind::kInt}};

// Rows and columns after transposition on request, and the strides that go with them.
struct Matrix {
  int64_t rows, columns, row_stride, column_stride;
};
Matrix matrix_of(const Shape& shape, bool transposed, std::string_view what) {
  if (shape.size() != 2) {
    throw_invalid("{}: expected a matrix, got shape {}", what, shape_text(shape));
  }
  if (transposed) return {shape[1], shape[0], 1, shape[1]};
  return {shape[0], shape[1], shape[1], 1};
}

void infer(Inference& c) {
  const Matrix a = matrix_of(c.shape(0), c.attributes().integer("transA", 0) != 0, "A");
  const Matrix b = matrix_of(c.shape(1), c.attributes().integer("transB", 0) != 0, "B");
  if (a.columns != b.rows) {
    throw_invalid("A has {} columns, B has {} rows", a.columns, b.rows);
  }
  const Shape shape{a.rows, b.columns};
  if (c.has_input(2) && !broadcasts_to(c.shape(2), shape)) {
    throw_invalid("C: expected a shape that broadcasts to {}, got {}", shape_text(shape),
                  shape_text(c.shape(2)));
  }
  c.set_output(0, c.dtype(0), shape);
}

template <typename T>
void evaluate_as(Evaluation& c) {
  const Attributes& attributes = c.attributes;
  const Matrix a = matrix_of(c.inputs[0].shape(), attributes.integer("transA", 0) != 0, "A");
  const Matrix b = matrix_of(c.inputs[1].shape(), attributes.integer("transB", 0) != 0, "B");
  const double alpha = attributes.number("alpha", 1), beta = attributes.number("beta", 1);
  Tensor scratch(DType::kFloat64, {a.rows, b.columns});
  const std::span<double> sums = scratch.mutable_values<double>();
  const Product product{.m = a.rows,
                        .n = b.columns,
                        .k = a.columns,
                        .a = matrix_rows(data_of<T>(c.inputs[0]), a.row_stride, a.column_stride),
                        .b = matrix_rows(data_of<T>(c.inputs[1]), b.row_stride, b.column_stride),
                        .c = sums.data(),
                        .row_stride = b.columns};
  accumulate_products({&product, 1}, c.team);

  T* y = data_of<T>(c.make_output(0));
  for (double& sum : sums) sum *= alpha;
  if (c.has_input(2) && beta != 0) {  // as in BLAS, what is not finite must not come back
    const T* addend = data_of<T>(c.inputs[2]);
    const Shape shapes[] = {c.inputs[2].shape()};
    const StridedLoop loop = StridedLoop::broadcast(c.output_shapes[0], shapes);
    loop.rows(0, loop.count(),
              [&](int64_t at, int64_t length, const int64_t* offsets, const int64_t* steps) {
                for (int64_t i = 0; i < length; ++i) {
                  sums[at + i] += beta * static_cast<double>(addend[offsets[0] + i * steps[0]]);
                }
              });
  }
  for (size_t i = 0; i < sums.size(); ++i) y[i] = static_cast<T>(sums[i]);
}

void evaluate(Evaluation& c) {
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() { evaluate_as<T>(c); });
}

double flops(const Graph& graph, const Node& node) {
  const Shape& a = *graph.value(node.inputs[0]).shape;
  const Shape& y = *graph.value(node.outputs[0]).shape;
  const int64_t depth = node.attributes.integer("transA", 0) != 0 ? a[0] : a[1];
  return 2.0 * static_cast<double>(y[0]) * static_cast<double>(y[1]) * static_cast<double>(depth);
}

}  // namespace

const Operator kGemm{.name = "Gemm",
                     .inputs = kInputs,
                     .outputs = kOutputs,
                     .attributes = kAttributes,
                     .infer = infer,
                     .evaluate = evaluate,
                     .flops = flops};

}  // namespace stretto::ir::ops
