#include "stretto/tensor/fourier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

namespace stretto {
namespace {

using Complex = std::complex<double>;

TEST(Fourier, RootsAreThoseOfTheirDefinition) {
  for (const int64_t length : {1, 2, 3, 60, 1021, 4096, 99991}) {
    const RootsOfUnity roots(length);
    for (int64_t power = 0; power < 3 * length; power += 1 + length / 50) {
      const Complex expected =
          std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(power % length) /
                              static_cast<double>(length));
      EXPECT_LT(std::abs(roots(power) - expected), 1e-15);
    }
  }
}

// Sums of at most 500 terms in double.
TEST(Fourier, EveryLengthIsTheSumOfItsDefinition) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (const int64_t length : {1, 2, 3, 4, 5, 7, 12, 30, 61, 67, 128, 134, 211, 360, 499}) {
    for (const bool inverse : {false, true}) {
      std::vector<Complex> x(static_cast<size_t>(length));
      for (Complex& v : x) v = {uniform(random), uniform(random)};
      std::vector<Complex> y = x;
      FourierTransform(length).run(y.data(), inverse);
      for (int64_t k = 0; k < length; ++k) {
        Complex sum = 0;
        for (int64_t j = 0; j < length; ++j) {
          sum += x[j] * std::polar(1.0, (inverse ? 2 : -2) * std::numbers::pi *
                                            static_cast<double>(j * k % length) /
                                            static_cast<double>(length));
        }
        EXPECT_LT(std::abs(y[k] - sum), 1e-12 * std::sqrt(length)) << length << " at " << k;
      }
    }
  }
}

// A sum of the definition would take hours.
TEST(Fourier, ALargePrimeComesBackToItself) {
  constexpr int64_t kPrime = 524287;
  std::vector<Complex> x(kPrime);
  for (int64_t i = 0; i < kPrime; ++i) x[i] = {static_cast<double>(i % 7), 1};
  std::vector<Complex> y = x;
  FourierTransform transform(kPrime);
  transform.run(y.data(), false);
  transform.run(y.data(), true);
  for (int64_t i = 0; i < kPrime; i += 1001) {
    EXPECT_LT(std::abs(y[i] / static_cast<double>(kPrime) - x[i]), 1e-9);
  }
}

TEST(Fourier, PrimeFactors) {
  EXPECT_EQ(prime_factors(1), std::vector<int64_t>{});
  EXPECT_EQ(prime_factors(360), (std::vector<int64_t>{2, 2, 2, 3, 3, 5}));
  EXPECT_EQ(prime_factors(4999), (std::vector<int64_t>{4999}));
}

}  // namespace
}  // namespace stretto
