// What convolutions and matrix products do to their result while it is still in registers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stretto::kernels {

// y = activation(x). Formulas as in the ONNX operator of the same name.
enum class Activation : uint8_t {
  kNone,
  kRelu,
  kClip,       // min(max(x, alpha), beta): ReLU6 is alpha 0, beta 6
  kLeakyRelu,  // x < 0 ? alpha * x : x
  kSigmoid,
  kSilu,         // x * sigmoid(x)
  kHardSigmoid,  // min(max(alpha * x + beta, 0), 1)
  kHardSwish,    // x * min(max(x / 6 + 1/2, 0), 1)
  kTanh,
  kGelu,      // x / 2 * (1 + erf(x / sqrt 2))
  kGeluTanh,  // the tanh approximation of it
  kElu,       // x < 0 ? alpha * (exp(x) - 1) : x
};
std::string_view activation_name(Activation activation);

// result = activation(sum + bias + residual), or activation(sum + bias) + residual.
struct Epilogue {
  Activation activation = Activation::kNone;
  bool bias = false;      // one fp32 per output channel / column
  bool residual = false;  // the problem's last input, of the output's shape and layout
  bool residual_after_activation = false;
  float alpha = 0, beta = 0;
};
std::string epilogue_text(const Epilogue& epilogue);  // "+bias+res+relu"; "" for none

double apply_activation(Activation activation, float alpha, float beta, double x);  // reference

}  // namespace stretto::kernels
