#include "stretto/ir/ops/epilogue.h"

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/tensor/elementwise.h"

namespace stretto::ir::ops {
namespace {

Activation activation_of(const Attributes& attributes) {
  const std::string name = attributes.text("activation", "none");
  const auto activation = parse_activation(name);
  if (!activation) throw_invalid("activation: no '{}'", name);
  return *activation;
}

}  // namespace

void check_bias(const Inference& c, int64_t channels) {
  if (c.has_input(2) && c.shape(2) != Shape{channels}) {
    throw_invalid("bias: expected shape {}, one value per output channel, got {}", channels,
                  shape_text(c.shape(2)));
  }
}

void check_epilogue(const Inference& c, const Shape& output, int64_t channels) {
  activation_of(c.attributes());
  check_bias(c, channels);
  if (c.has_input(3) && c.shape(3) != output) {
    throw_invalid("residual: expected the output's shape {}, got {}", shape_text(output),
                  shape_text(c.shape(3)));
  }
}

void finish(Evaluation& c, Tensor sums, int64_t channel_axis) {
  const Activation activation = activation_of(c.attributes);
  const double alpha = c.attributes.number("alpha", 0), beta = c.attributes.number("beta", 0);
  const bool has_bias = c.has_input(2), has_residual = c.has_input(3);
  const bool after = c.attributes.integer("residual_after_activation", 0) != 0;
  const int64_t channels = sums.dim(channel_axis);
  int64_t inner = 1;
  for (int64_t axis = channel_axis + 1; axis < sums.rank(); ++axis) inner *= sums.dim(axis);

  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    // float64 results are finished in place.
    c.outputs[0] = std::is_same_v<T, double> ? sums : Tensor(kDTypeOf<T>, sums.shape());
    const double* from = data_of<double>(std::as_const(sums));
    T* to = data_of<T>(c.outputs[0]);
    const T* bias = has_bias ? data_of<T>(c.inputs[2]) : nullptr;
    const T* residual = has_residual ? data_of<T>(c.inputs[3]) : nullptr;
    const int64_t rows = inner == 0 ? 0 : sums.count() / inner;
    parallel(c.team, rows, 1 + 4096 / (inner + 1), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const double shift = has_bias ? static_cast<double>(bias[row % channels]) : 0;
        for (int64_t i = row * inner; i < (row + 1) * inner; ++i) {
          const double r = has_residual ? static_cast<double>(residual[i]) : 0;
          const double sum = from[i] + shift + (after ? 0 : r);
          to[i] = static_cast<T>(apply_activation(activation, alpha, beta, sum) + (after ? r : 0));
        }
      }
    });
  });
}

}  // namespace stretto::ir::ops
