#include "stretto/ir/ops/epilogue.h"

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/formulas.h"
#include "stretto/ir/ops/parallel.h"

namespace stretto::ir::ops {
namespace {

struct Activation {
  std::string_view name;
  double (*apply)(double x, double alpha, double beta);
};

constexpr Activation kActivations[] = {
    {"none", [](double x, double, double) { return x; }},
    {"relu", [](double x, double, double) { return relu(x); }},
    {"clip", [](double x, double a, double b) { return clip(x, a, b); }},
    {"leaky_relu", [](double x, double a, double) { return leaky_relu(x, a); }},
    {"sigmoid", [](double x, double, double) { return sigmoid(x); }},
    {"silu", [](double x, double, double) { return silu(x); }},
    {"hard_sigmoid", [](double x, double a, double b) { return hard_sigmoid(x, a, b); }},
    {"hard_swish", [](double x, double, double) { return hard_swish(x); }},
    {"tanh", [](double x, double, double) { return std::tanh(x); }},
    {"gelu", [](double x, double, double) { return gelu(x); }},
    {"gelu_tanh", [](double x, double, double) { return gelu_tanh(x); }},
    {"elu", [](double x, double a, double) { return elu(x, a); }},
};

const Activation& activation_of(const Attributes& attributes) {
  const std::string name = attributes.text("activation", "none");
  for (const Activation& activation : kActivations) {
    if (activation.name == name) return activation;
  }
  throw_invalid("activation: no '{}'", name);
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
  const Activation& activation = activation_of(c.attributes);
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
          to[i] = static_cast<T>(activation.apply(sum, alpha, beta) + (after ? r : 0));
        }
      }
    });
  });
}

}  // namespace stretto::ir::ops
