// Activations with parameters, one table: name, formula, attributes with their defaults.
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/table.h"
#include "stretto/tensor/formulas.h"

namespace stretto::ir::ops {
namespace {

using namespace formulas;  // NOLINT: what the rows call

constexpr Port kX[] = {{"X", kRealTypes, Arity::kRequired, 'T'}};

void infer(Inference& c) { c.set_output(0, c.dtype(0), c.shape(0)); }

// Up to two numbers; the formula is y = f(x, first, second).
struct Parameter {
  std::string_view name;
  double fallback;
};
constexpr Parameter kAlpha001{"alpha", 0.01};
constexpr Parameter kAlpha02{"alpha", 0.2};
constexpr Parameter kAlpha1{"alpha", 1};
constexpr Parameter kBetaHalf{"beta", 0.5};
constexpr Parameter kSeluAlpha{"alpha", 1.67326319217681884765625};
constexpr Parameter kSeluGamma{"gamma", 1.05070102214813232421875};
constexpr Parameter kBias{"bias", 0};
constexpr Parameter kLambda{"lambd", 0.5};
constexpr Parameter kUnused{"", 0};

template <const Parameter& kA, const Parameter& kB>
constexpr AttributeSpec kAttributes[] = {{kA.name, AttributeKind::kFloat},
                                         {kB.name, AttributeKind::kFloat}};

template <const Parameter& kA, const Parameter& kB, auto kFormula>
void evaluate(Evaluation& c) {
  const double a = c.attributes.number(kA.name, kA.fallback);
  const double b = c.attributes.number(kB.name, kB.fallback);
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    map_unary<T, T>(c, [a, b](double x) { return kFormula(x, a, b); });
  });
}

template <const Parameter& kA, const Parameter& kB, auto kFormula>
constexpr Operator row(std::string_view name) {
  constexpr size_t kCount = kB.name.empty() ? 1 : 2;
  return {.name = name,
          .inputs = kX,
          .outputs = kX,
          .attributes = std::span<const AttributeSpec>(kAttributes<kA, kB>).first(kCount),
          .infer = infer,
          .evaluate = evaluate<kA, kB, kFormula>};
}

constexpr auto kCelu = [](double x, double alpha, double) {
  return std::isnan(x) ? x : std::max(x, 0.0) + std::min(0.0, alpha * std::expm1(x / alpha));
};
constexpr auto kElu = [](double x, double alpha, double) { return elu(x, alpha); };
constexpr auto kHardSigmoid = [](double x, double alpha, double beta) {
  return hard_sigmoid(x, alpha, beta);
};
constexpr auto kLeakyRelu = [](double x, double alpha, double) { return leaky_relu(x, alpha); };
constexpr auto kSelu = [](double x, double alpha, double gamma) { return gamma * elu(x, alpha); };
constexpr auto kShrink = [](double x, double bias, double lambda) {
  if (x < -lambda) return x + bias;
  return x > lambda ? x - bias : 0;
};
constexpr auto kSwish = [](double x, double alpha, double) {
  return x / (1 + std::exp(-alpha * x));
};
constexpr auto kThresholdedRelu = [](double x, double alpha, double) { return x > alpha ? x : 0; };

constexpr AttributeSpec kGeluAttributes[] = {{"approximate", AttributeKind::kString}};

bool gelu_by_tanh(const Attributes& attributes) {
  const std::string mode = attributes.text("approximate", "none");
  if (mode != "none" && mode != "tanh") {
    throw_invalid("approximate: expected none or tanh, got {}", mode);
  }
  return mode == "tanh";
}

void infer_gelu(Inference& c) {
  gelu_by_tanh(c.attributes());
  infer(c);
}

void evaluate_gelu(Evaluation& c) {
  const auto formula = gelu_by_tanh(c.attributes) ? gelu_tanh : gelu;
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() { map_unary<T, T>(c, formula); });
}

constexpr Operator kRows[] = {
    row<kAlpha1, kUnused, kCelu>("Celu"),
    row<kAlpha1, kUnused, kElu>("Elu"),
    {.name = "Gelu",
     .inputs = kX,
     .outputs = kX,
     .attributes = kGeluAttributes,
     .infer = infer_gelu,
     .evaluate = evaluate_gelu},
    row<kAlpha02, kBetaHalf, kHardSigmoid>("HardSigmoid"),
    row<kAlpha001, kUnused, kLeakyRelu>("LeakyRelu"),
    row<kSeluAlpha, kSeluGamma, kSelu>("Selu"),
    row<kBias, kLambda, kShrink>("Shrink"),
    row<kAlpha1, kUnused, kSwish>("Swish"),
    row<kAlpha1, kUnused, kThresholdedRelu>("ThresholdedRelu"),
};

}  // namespace

std::span<const Operator> activations() { return kRows; }

}  // namespace stretto::ir::ops
