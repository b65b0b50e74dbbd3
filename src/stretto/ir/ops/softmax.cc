// Softmax, LogSoftmax and Hardmax along one axis.
#include <cmath>

#include "stretto/ir/ops/axes.h"
#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"input", kRealTypes, Arity::kRequired, 'T'}};
constexpr Port kOutputs[] = {{"output", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {{"axis", AttributeKind::kInt}};

void infer(Inference& c) {
  normalize_axis(c.attributes().integer("axis", -1), c.rank(0), "axis");
  c.set_output(0, c.dtype(0), c.shape(0));
}

// kRow(size, step, x, y) handles one run of `size` values, `step` apart.
template <auto kRow>
void evaluate(Evaluation& c) {
  const Shape& shape = c.inputs[0].shape();
  const AxisView view(shape, normalize_axis(c.attributes.integer("axis", -1),
                                            static_cast<int64_t>(shape.size()), "axis"));
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    const T* x = data_of<T>(c.inputs[0]);
    T* y = data_of<T>(c.make_output(0));
    const int64_t rows = view.size == 0 ? 0 : view.outer * view.inner;
    parallel(c.team, rows, 1 + 1024 / (view.size + 1), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row / view.inner * view.size * view.inner + row % view.inner;
        kRow(view.size, view.inner, x + at, y + at);
      }
    });
  });
}

template <typename T>
double maximum(int64_t size, int64_t step, const T* x) {
  double best = static_cast<double>(x[0]);
  for (int64_t i = 1; i < size; ++i) best = std::fmax(best, static_cast<double>(x[i * step]));
  return best;
}

template <typename T>
double exponential_sum(int64_t size, int64_t step, const T* x, double shift) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += std::exp(static_cast<double>(x[i * step]) - shift);
  return sum;
}

constexpr auto kSoftmaxRow = []<typename T>(int64_t size, int64_t step, const T* x, T* y) {
  const double top = maximum(size, step, x), sum = exponential_sum(size, step, x, top);
  for (int64_t i = 0; i < size; ++i) {
    y[i * step] = static_cast<T>(std::exp(static_cast<double>(x[i * step]) - top) / sum);
  }
};

constexpr auto kLogSoftmaxRow = []<typename T>(int64_t size, int64_t step, const T* x, T* y) {
  const double top = maximum(size, step, x);
  const double log_sum = std::log(exponential_sum(size, step, x, top));
  for (int64_t i = 0; i < size; ++i) {
    y[i * step] = static_cast<T>(static_cast<double>(x[i * step]) - top - log_sum);
  }
};

constexpr auto kHardmaxRow = []<typename T>(int64_t size, int64_t step, const T* x, T* y) {
  int64_t best = 0;
  for (int64_t i = 1; i < size; ++i) {
    if (x[i * step] > x[best * step]) best = i;
  }
  y[best * step] = T(1);
};

template <auto kRow>
constexpr Operator row(std::string_view name) {
  return {.name = name,
          .inputs = kInputs,
          .outputs = kOutputs,
          .attributes = kAttributes,
          .infer = infer,
          .evaluate = evaluate<kRow>};
}

constexpr Operator kRows[] = {
    row<kHardmaxRow>("Hardmax"),
    row<kLogSoftmaxRow>("LogSoftmax"),
    row<kSoftmaxRow>("Softmax"),
};

}  // namespace

std::span<const Operator> softmax() { return kRows; }

}  // namespace stretto::ir::ops
