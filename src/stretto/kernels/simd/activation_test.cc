#include "stretto/kernels/simd/activation.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace stretto::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A million finite floats of every sign and exponent, as many where the functions bend, and the
// floats around the bounds of their forms.
std::vector<float> probes() {
  std::vector<float> x;
  const auto add = [&](float value) {
    if (std::isfinite(value)) x.push_back(value);
  };
  constexpr uint32_t kPrime = 4099;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += kPrime) {
    add(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (int i = -500'000; i <= 500'000; ++i) add(static_cast<float>(i) * 2.1e-5f);
  for (const float bound : {0.0f, 0.5f, 0.34657359f, 9.0f, 20.0f, 40.0f, 86.9878f, 87.0f, 87.3f,
                            88.0f, 88.3763f, 88.72283f, 89.0f, 103.972f}) {
    const uint32_t bits = std::bit_cast<uint32_t>(bound);
    for (int i = -40; i <= 40; ++i) {
      const float near = std::bit_cast<float>(bits + static_cast<uint32_t>(i));
      add(near);
      add(-near);
    }
  }
  return x;
}

// The larger of 4 units in the last place of `value` and 1e-7: see activation-inl.h.
double bound_at(double value) {
  int exponent;
  std::frexp(value, &exponent);
  return std::max(std::ldexp(4.0, exponent - 24), 1e-7);
}

TEST(Activation, EveryIsaMatchesTheFormulas) {
  const std::vector<float> x = probes();
  std::vector<float> y(x.size());
  std::vector<double> expected(x.size());
  for (const Activation activation : activations()) {
    const float alpha = activation == Activation::kElu ? 1.0f : 0.2f, beta = 0.5f;
    for (size_t i = 0; i < x.size(); ++i) {
      expected[i] = apply_activation(activation, alpha, beta, x[i]);
    }
    for (const Isa isa : usable_isas()) {
      activate_array(isa, activation, alpha, beta, x.data(), y.data(), x.size());
      size_t worst = 0;
      double worst_share = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double share = std::fabs(y[i] - expected[i]) / bound_at(expected[i]);
        if (share <= worst_share) continue;  // also false for NaN
        worst = i;
        worst_share = std::isnan(share) ? kInfinity : share;
      }
      EXPECT_LE(worst_share, 1) << activation_name(activation) << "(" << x[worst] << ") on "
                                << isa_name(isa) << " is " << y[worst] << " instead of "
                                << expected[worst];
    }
  }
}

TEST(Activation, InfinitiesAndNanFollowTheFormulas) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{kInfinity,
                             -kInfinity,
                             nan,
                             -nan,
                             std::bit_cast<float>(0x7fc00155u),
                             std::bit_cast<float>(0xffc00155u)};
  for (const Isa isa : usable_isas()) {
    for (const Activation activation : activations()) {
      std::vector<float> y(x.size());
      activate_array(isa, activation, 0.2f, 0.5f, x.data(), y.data(), x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        const auto expected = static_cast<float>(apply_activation(activation, 0.2f, 0.5f, x[i]));
        const bool same = std::isnan(expected) ? std::isnan(y[i]) : y[i] == expected;
        EXPECT_TRUE(same) << activation_name(activation) << "(" << x[i] << ") on " << isa_name(isa)
                          << " is " << y[i] << " instead of " << expected;
      }
    }
  }
}

// Users rely on the ranges of the functions; arrays longer than a vector also test the remainder.
TEST(Activation, SigmoidAndTanhStayInTheirRange) {
  const std::vector<float> x = probes();
  std::vector<float> y(x.size());
  for (const Isa isa : usable_isas()) {
    for (const Activation activation : {Activation::kSigmoid, Activation::kTanh}) {
      activate_array(isa, activation, 0, 0, x.data(), y.data(), x.size());
      const float least = activation == Activation::kTanh ? -1.0f : 0.0f;
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_TRUE(y[i] >= least && y[i] <= 1) << activation_name(activation) << "(" << x[i]
                                                << ") on " << isa_name(isa) << " is " << y[i];
      }
    }
  }
}

}  // namespace
}  // namespace stretto::kernels
