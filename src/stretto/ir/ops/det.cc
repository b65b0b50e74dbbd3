// Det: determinants of square matrices, by elimination with the largest pivot.
#include <cmath>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'}};
constexpr Port kOutputs[] = {{"Y", kRealTypes, Arity::kRequired, 'T'}};

void infer(Inference& c) {
  const Shape& x = c.shape(0);
  if (x.size() < 2 || x[x.size() - 1] != x[x.size() - 2]) {
    throw_invalid("X: expected square matrices, got {}", shape_text(x));
  }
  c.set_output(0, c.dtype(0), Shape(x.begin(), x.end() - 2));
}

double determinant(std::vector<double> m, int64_t n) {
  double product = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i) {
      if (std::fabs(m[i * n + k]) > std::fabs(m[pivot * n + k])) pivot = i;
    }
    if (pivot != k) {
      for (int64_t j = k; j < n; ++j) std::swap(m[k * n + j], m[pivot * n + j]);
      product = -product;
    }
    product *= m[k * n + k];
    if (product == 0) return product;
    for (int64_t i = k + 1; i < n; ++i) {
      const double factor = m[i * n + k] / m[k * n + k];
      for (int64_t j = k + 1; j < n; ++j) m[i * n + j] -= factor * m[k * n + j];
    }
  }
  return product;
}

void evaluate(Evaluation& c) {
  const Tensor& x = c.inputs[0];
  const int64_t n = x.shape().back(), size = n * n;
  const std::vector<double> all = x.as_doubles();
  with_type<kRealTypes>(x.dtype(), [&]<typename T>() {
    Tensor& y = c.make_output(0);
    for (int64_t i = 0; i < y.count(); ++i) {
      const auto first = all.begin() + i * size;
      data_of<T>(y)[i] = static_cast<T>(determinant({first, first + size}, n));
    }
  });
}

double flops(const Graph& graph, const Node& node) {
  const Shape& x = *graph.value(node.inputs[0]).shape;
  return 2.0 / 3 * static_cast<double>(element_count(x)) * static_cast<double>(x.back());
}

}  // namespace

const Operator kDet{.name = "Det",
                    .inputs = kInputs,
                    .outputs = kOutputs,
                    .attributes = {},
                    .infer = infer,
                    .evaluate = evaluate,
                    .flops = flops};

}  // namespace stretto::ir::ops
