// Activations with numbers: those of tensor/elementwise.inc and others, whose formulas are here.
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kX[] = {{"X", kRealTypes, Arity::kRequired, 'T'}};

void infer(Inference& c) { c.set_output(0, c.dtype(0), c.shape(0)); }

// Up to two numbers; the formula is y = f(x, first, second).
struct Parameter {
  std::string_view name;
  double fallback;
};
template <typename Element>
constexpr Parameter kAlphaOf{"alpha", Element::kAlpha};
template <typename Element>
constexpr Parameter kBetaOf{Element::kNumbers > 1 ? "beta" : "", Element::kBeta};
constexpr Parameter kAlpha1{"alpha", 1};
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

// A row of tensor/elementwise.inc.
template <typename Element>
constexpr Operator row() {
  return row<kAlphaOf<Element>, kBetaOf<Element>, [](double x, double alpha, double beta) {
    return Element::apply(x, 0, 0, alpha, beta);
  }>(Element::kName);
}

constexpr auto kCelu = [](double x, double alpha, double) {
  return std::isnan(x) ? x : std::max(x, 0.0) + std::min(0.0, alpha * std::expm1(x / alpha));
};
constexpr auto kSelu = [](double x, double alpha, double gamma) {
  return gamma * formulas::elu(x, alpha);
};
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
  const auto formula = gelu_by_tanh(c.attributes) ? formulas::gelu_tanh : formulas::gelu;
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() { map_unary<T, T>(c, formula); });
}

constexpr Operator kRows[] = {
    row<kAlpha1, kUnused, kCelu>("Celu"),
    row<elements::Elu>(),
    {.name = "Gelu",
     .inputs = kX,
     .outputs = kX,
     .attributes = kGeluAttributes,
     .infer = infer_gelu,
     .evaluate = evaluate_gelu},
    row<elements::HardSigmoid>(),
    row<elements::LeakyRelu>(),
    row<kSeluAlpha, kSeluGamma, kSelu>("Selu"),
    row<kBias, kLambda, kShrink>("Shrink"),
    row<kAlpha1, kUnused, kSwish>("Swish"),
    row<kAlpha1, kUnused, kThresholdedRelu>("ThresholdedRelu"),
};

}  // namespace

std::span<const Operator> activations() { return kRows; }

}  // namespace stretto::ir::ops
