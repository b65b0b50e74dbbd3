// Scalar functions in double precision that the formulas of elementwise.inc call. NaN in,
// NaN out.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

namespace stretto::formulas {

inline double minimum(double a, double b) { return b < a || std::isnan(b) ? b : a; }
inline double maximum(double a, double b) { return a < b || std::isnan(b) ? b : a; }
inline double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }

inline double relu(double x) { return x < 0 ? 0 : x; }
inline double clip(double x, double low, double high) {
  return std::isnan(x) ? x : std::min(std::max(x, low), high);
}
inline double leaky_relu(double x, double alpha) { return x < 0 ? alpha * x : x; }
inline double elu(double x, double alpha) { return x < 0 ? alpha * std::expm1(x) : x; }
inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x / (1 + std::exp(-x)); }
inline double hard_sigmoid(double x, double alpha, double beta) {
  return clip(alpha * x + beta, 0, 1);
}
inline double hard_swish(double x) { return x * hard_sigmoid(x, 1.0 / 6, 0.5); }
inline double gelu(double x) { return x / 2 * (1 + std::erf(x / std::numbers::sqrt2)); }
inline double gelu_tanh(double x) {
  const double c = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // sqrt(2 / pi)
  return x / 2 * (1 + std::tanh(c * (x + 0.044715 * x * x * x)));
}
inline double softplus(double x) {  // log(1 + exp(x)) without overflow
  return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))) + (std::isnan(x) ? x : 0);
}
inline double mish(double x) { return x * std::tanh(softplus(x)); }

// Half to even, as ONNX Round and the processor's default.
inline double round_even(double x) { return std::nearbyint(x); }

}  // namespace stretto::formulas
