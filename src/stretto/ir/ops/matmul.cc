// MatMul and stretto.MatMul: batched matrix products with NumPy's rules.
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/matrix_product.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr TypeSet kTypes =
    kRealTypes | kIndexTypes | type_bit(DType::kUInt32) | type_bit(DType::kUInt64);
template <TypeSet kSet>
constexpr Port kInputs[] = {{"A", kSet, Arity::kRequired, 'T'}, {"B", kSet, Arity::kRequired, 'T'}};
template <TypeSet kSet>
constexpr Port kOutputs[] = {{"Y", kSet, Arity::kRequired, 'T'}};
constexpr AttributeSpec kFusedAttributes[] = {{"scale", AttributeKind::kFloat},
                                              {"trans_b", AttributeKind::kInt}};

// Both operands as stacks of matrices over a common batch.
struct Plan {
  int64_t m = 0, n = 0, k = 0;
  Shape batch, result;
  Strides a_batch, b_batch;  // elements between matrices, per batch axis
  bool trans_b = false;
};

Plan make_plan(Shape a, Shape b, const Attributes& attributes) {
  Plan plan;
  plan.trans_b = attributes.integer("trans_b", 0) != 0;
  if (a.empty() || b.empty()) throw_invalid("A and B: expected at least one axis, got a scalar");
  const bool row = a.size() == 1, column = b.size() == 1;
  if (row) a.insert(a.begin(), 1);
  if (column) plan.trans_b ? b.insert(b.begin(), 1) : b.insert(b.end(), 1);
  const size_t ra = a.size(), rb = b.size();
  plan.m = a[ra - 2];
  plan.k = a[ra - 1];
  plan.n = b[rb - (plan.trans_b ? 2 : 1)];
  const int64_t depth = b[rb - (plan.trans_b ? 1 : 2)];
  if (plan.k != depth) {
    throw_invalid("A of shape {} has {} columns, B of shape {} has {} rows", shape_text(a), plan.k,
                  shape_text(b), depth);
  }
  const Shape batch_a(a.begin(), a.end() - 2), batch_b(b.begin(), b.end() - 2);
  plan.batch = broadcast(batch_a, batch_b);
  plan.a_batch = broadcast_strides(batch_a, plan.batch);
  plan.b_batch = broadcast_strides(batch_b, plan.batch);
  for (int64_t& stride : plan.a_batch) stride *= plan.m * plan.k;
  for (int64_t& stride : plan.b_batch) stride *= plan.k * plan.n;
  plan.result = plan.batch;
  if (!row) plan.result.push_back(plan.m);
  if (!column) plan.result.push_back(plan.n);
  return plan;
}

void infer(Inference& c) {
  c.set_output(0, c.dtype(0), make_plan(c.shape(0), c.shape(1), c.attributes()).result);
}

// Calls f(number, offset of A's matrix, offset of B's) for every matrix of the result.
template <typename F>
void each_matrix(const Plan& plan, F&& f) {
  const StridedLoop loop(plan.batch, {plan.a_batch, plan.b_batch});
  loop.rows(0, loop.count(),
            [&](int64_t at, int64_t length, const int64_t* offsets, const int64_t* steps) {
              for (int64_t i = 0; i < length; ++i) {
                f(at + i, offsets[0] + i * steps[0], offsets[1] + i * steps[1]);
              }
            });
}

template <typename T>
void multiply_floats(Evaluation& c, Plan plan, double scale) {
  Tensor& out = c.make_output(0);
  Tensor sums = std::is_same_v<T, double> ? out : Tensor(DType::kFloat64, out.shape());
  double* y = data_of<double>(sums);
  // One B for all: the stack of A is one tall matrix.
  if (c.inputs[1].rank() == 2 && plan.batch.size() + 2 == static_cast<size_t>(c.inputs[0].rank())) {
    plan.m *= element_count(plan.batch);
    plan.batch.clear();
    plan.a_batch.clear();
    plan.b_batch.clear();
  }
  std::vector<Product> products;
  each_matrix(plan, [&](int64_t i, int64_t a, int64_t b) {
    products.push_back({.m = plan.m,
                        .n = plan.n,
                        .k = plan.k,
                        .a = matrix_rows(data_of<T>(c.inputs[0]) + a, plan.k, 1),
                        .b = plan.trans_b ? matrix_rows(data_of<T>(c.inputs[1]) + b, 1, plan.k)
                                          : matrix_rows(data_of<T>(c.inputs[1]) + b, plan.n, 1),
                        .c = y + i * plan.m * plan.n,
                        .row_stride = plan.n});
  });
  accumulate_products(products, c.team);
  if (std::is_same_v<T, double> && scale == 1) return;
  for (int64_t i = 0; i < out.count(); ++i) data_of<T>(out)[i] = static_cast<T>(y[i] * scale);
}

template <typename T>
void multiply_integers(Evaluation& c, const Plan& plan) {
  T* y = data_of<T>(c.make_output(0));
  each_matrix(plan, [&](int64_t number, int64_t a, int64_t b) {
    for (int64_t i = 0; i < plan.m; ++i) {
      for (int64_t j = 0; j < plan.n; ++j) {
        uint64_t sum = 0;
        for (int64_t k = 0; k < plan.k; ++k) {
          sum += wrapping(data_of<T>(c.inputs[0])[a + i * plan.k + k]) *
                 wrapping(data_of<T>(c.inputs[1])[b + k * plan.n + j]);
        }
        y[(number * plan.m + i) * plan.n + j] = static_cast<T>(sum);
      }
    }
  });
}

void evaluate(Evaluation& c) {
  const Plan plan = make_plan(c.inputs[0].shape(), c.inputs[1].shape(), c.attributes);
  with_type<kTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    if constexpr (std::is_floating_point_v<T>) {
      multiply_floats<T>(c, plan, c.attributes.number("scale", 1));
    } else {
      multiply_integers<T>(c, plan);
    }
  });
}

double flops(const Graph& graph, const Node& node) {
  const Plan plan = make_plan(*graph.value(node.inputs[0]).shape,
                              *graph.value(node.inputs[1]).shape, node.attributes);
  return 2.0 * static_cast<double>(element_count(plan.result)) * static_cast<double>(plan.k);
}

}  // namespace

const Operator kFusedMatMul{.name = "stretto.MatMul",
                            .inputs = kInputs<kRealTypes>,
                            .outputs = kOutputs<kRealTypes>,
                            .attributes = kFusedAttributes,
                            .infer = infer,
                            .evaluate = evaluate,
                            .flops = flops};

const Operator kMatMul{.name = "MatMul",
                       .inputs = kInputs<kTypes>,
                       .outputs = kOutputs<kTypes>,
                       .attributes = {},
                       .infer = infer,
                       .evaluate = evaluate,
                       .flops = flops};

}  // namespace stretto::ir::ops
