#include "stretto/kernels/epilogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace stretto::kernels {

std::string_view activation_name(Activation activation) {
  static constexpr std::array<std::string_view, 12> kNames{
      "none",         "relu",       "clip", "leaky_relu", "sigmoid",   "silu",
      "hard_sigmoid", "hard_swish", "tanh", "gelu",       "gelu_tanh", "elu"};
  return kNames[static_cast<size_t>(activation)];
}

std::string epilogue_text(const Epilogue& epilogue) {
  std::string text = epilogue.bias ? "+bias" : "";
  if (epilogue.residual && !epilogue.residual_after_activation) text += "+res";
  if (epilogue.activation != Activation::kNone) {
    text += fmt::format("+{}", activation_name(epilogue.activation));
    if (epilogue.alpha != 0 || epilogue.beta != 0) {
      text += fmt::format("({},{})", epilogue.alpha, epilogue.beta);
    }
  }
  if (epilogue.residual && epilogue.residual_after_activation) text += "+res";
  return text;
}

double apply_activation(Activation activation, float alpha, float beta, double x) {
  const double a = alpha, b = beta;
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x > 0 || std::isnan(x) ? x : 0;
    case Activation::kClip:
      return std::isnan(x) ? x : std::min(std::max(x, a), b);
    case Activation::kLeakyRelu:
      return x < 0 ? a * x : x;
    case Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kHardSigmoid:
      return std::isnan(x) ? x : std::clamp(a * x + b, 0.0, 1.0);
    case Activation::kHardSwish:
      return std::isnan(x) ? x : x * std::clamp(x / 6 + 0.5, 0.0, 1.0);
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
    case Activation::kGeluTanh: {
      const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
      return 0.5 * x * (1 + std::tanh(inner));
    }
    case Activation::kElu:
      return x < 0 ? a * std::expm1(x) : x;
  }
  return x;
}

}  // namespace stretto::kernels
