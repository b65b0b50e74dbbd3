// What convolutions and matrix products do to their result while it is still in registers.
#pragma once

#include <cstdint>
#include <string>

#include "stretto/tensor/elementwise.h"

namespace stretto::kernels {

// result = activation(sum + bias + residual), or activation(sum + bias) + residual.
struct Epilogue {
  Activation activation = Activation::kNone;
  bool bias = false;      // one fp32 per output channel / column
  bool residual = false;  // the problem's last input, of the output's shape and layout
  bool residual_after_activation = false;
  float alpha = 0, beta = 0;
};
std::string epilogue_text(const Epilogue& epilogue);  // "+bias+res+relu"; "" for none

}  // namespace stretto::kernels
