#include "stretto/kernels/simd/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace stretto::kernels {
namespace {

std::vector<float> probes() {
  std::vector<float> x{0.0f, -0.0f, 1e-30f, -1e-30f, 1e30f, -1e30f, 88.7f, 89.5f, -87.3f, -104.0f};
  for (int i = -4000; i <= 4000; ++i) x.push_back(static_cast<float>(i) * 0.0051f);
  x.push_back(std::numeric_limits<float>::infinity());
  x.push_back(-std::numeric_limits<float>::infinity());
  x.push_back(std::nanf(""));
  return x;
}

TEST(Activation, EveryIsaMatchesTheFormulas) {
  const std::vector<float> x = probes();
  for (Isa isa : usable_isas()) {
    for (const Activation activation : activations()) {
      const float alpha = activation == Activation::kHardSigmoid ? 0.2f : 0.3f, beta = 0.5f;
      std::vector<float> y(x.size());
      activate_array(isa, activation, alpha, beta, x.data(), y.data(), x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        const double e = apply_activation(activation, alpha, beta, x[i]);
        if (std::isnan(e) || std::isinf(e)) continue;  // limits at infinities are checked below
        // 4 ulp relative or 2e-7 of max(1, |x|) absolute, see activation-inl.h.
        const double bound =
            std::max(5e-7 * std::fabs(e), 2e-7 * std::max(1.0, std::fabs(double{x[i]})));
        EXPECT_NEAR(y[i], e, std::isfinite(x[i]) ? bound : 1e-6)
            << activation_name(activation) << "(" << x[i] << ") on " << isa_name(isa);
      }
      EXPECT_TRUE(std::isnan(y.back())) << activation_name(activation) << " must keep NaN";
    }
  }
}

}  // namespace
}  // namespace stretto::kernels
