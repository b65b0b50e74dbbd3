#include "stretto/kernels/epilogue.h"

#include <fmt/format.h>

namespace stretto::kernels {

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

}  // namespace stretto::kernels
