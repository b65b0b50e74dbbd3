#include "stretto/tensor/fourier.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace stretto {
namespace {

using Complex = std::complex<double>;

// The most that is summed directly, in a time that grows with its square.
constexpr int64_t kLargestFactor = 61;

// Without the checks for NaN that C++ makes of infinite products.
Complex product(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// Four elements, `step` apart, to four that are `to_step` apart, times powers of a twiddle.
void four(const Complex* a, int64_t step, const Complex* twiddles, Complex* to, int64_t to_step) {
  const Complex sum = a[0] + a[2 * step], difference = a[0] - a[2 * step];
  const Complex other = a[step] + a[3 * step], turned = a[step] - a[3 * step];
  const Complex quarter(turned.imag(), -turned.real());
  to[0] = sum + other;
  to[to_step] = product(difference + quarter, twiddles[0]);
  to[2 * to_step] = product(sum - other, twiddles[1]);
  to[3 * to_step] = product(difference - quarter, twiddles[2]);
}

}  // namespace

RootsOfUnity::RootsOfUnity(int64_t length)
    : length_(length),
      step_(std::max<int64_t>(1, std::llround(std::sqrt(static_cast<double>(length))))) {
  const auto root = [&](int64_t power) {
    return std::polar(
        1.0, -2 * std::numbers::pi * static_cast<double>(power) / static_cast<double>(length));
  };
  for (int64_t i = 0; i < step_; ++i) fine_.push_back(root(i));
  for (int64_t i = 0; i * step_ < length; ++i) coarse_.push_back(root(i * step_));
}

Complex RootsOfUnity::operator()(int64_t power) const {
  const int64_t i = power % length_;
  return product(coarse_[i / step_], fine_[i % step_]);
}

std::vector<int64_t> prime_factors(int64_t n) {
  std::vector<int64_t> factors;
  for (int64_t f = 2; f * f <= n; ++f) {
    for (; n % f == 0; n /= f) factors.push_back(f);
  }
  if (n > 1) factors.push_back(n);
  return factors;
}

FourierTransform::FourierTransform(int64_t length)
    : length_(length),
      roots_(length),
      factors_(prime_factors(length)),
      other_(static_cast<size_t>(length)) {
  // Pairs of twos are one pass.
  while (factors_.size() > 1 && factors_[0] == 2 && factors_[1] == 2) {
    factors_.erase(factors_.begin(), factors_.begin() + 2);
    factors_.push_back(4);
  }
  if (factors_.empty() || *std::max_element(factors_.begin(), factors_.end()) <= kLargestFactor)
    return;
  int64_t room = 1;
  while (room < 2 * length - 1) room *= 2;
  convolution_ = std::make_unique<FourierTransform>(room);
  const RootsOfUnity halves(2 * length);
  response_.resize(static_cast<size_t>(room));
  for (int64_t i = 0; i < length; ++i) {
    chirp_.push_back(halves(i * i % (2 * length)));
    response_[i] = std::conj(chirp_[i]);
    if (i > 0) response_[room - i] = response_[i];
  }
  convolution_->run(response_.data(), false);
  other_.resize(static_cast<size_t>(room));
}

FourierTransform::~FourierTransform() = default;

void FourierTransform::run(Complex* x, bool inverse) {
  // The conjugate of the transform of the conjugate is the inverse.
  const auto conjugate = [&] {
    for (int64_t i = 0; i < length_ && inverse; ++i) x[i] = std::conj(x[i]);
  };
  conjugate();
  convolution_ != nullptr ? by_convolution(x) : forward(x);
  conjugate();
}

// Stockham: no permutation of the elements, results alternate between two arrays.
void FourierTransform::forward(Complex* x) {
  Complex *from = x, *to = other_.data();
  int64_t done = 1;
  for (const int64_t radix : factors_) {
    const int64_t inner = length_ / (done * radix);
    for (int64_t i = 0; i < inner && radix == 4; ++i) {
      const Complex twiddles[] = {roots_(i * done), roots_(2 * i * done), roots_(3 * i * done)};
      for (int64_t k = 0; k < done; ++k) {
        four(from + k * 4 * inner + i, inner, twiddles, to + k * inner + i, done * inner);
      }
    }
    std::vector<Complex> waves;
    for (int64_t j = 0; j < radix; ++j) waves.push_back(roots_(j * (length_ / radix)));
    for (int64_t u = 0; u < radix && radix != 4; ++u) {
      for (int64_t i = 0; i < inner; ++i) {
        const Complex twiddle = roots_(u * i * done);
        for (int64_t k = 0; k < done; ++k) {
          const Complex* a = from + k * radix * inner + i;
          Complex sum = a[0];
          for (int64_t j = 1, wave = 0; j < radix; ++j) {
            wave += wave + u < radix ? u : u - radix;
            sum += product(a[j * inner], waves[wave]);
          }
          to[(u * done + k) * inner + i] = product(sum, twiddle);
        }
      }
    }
    done *= radix;
    std::swap(from, to);
  }
  if (from != x) std::copy_n(from, length_, x);
}

void FourierTransform::by_convolution(Complex* x) {
  const auto room = static_cast<int64_t>(other_.size());
  std::fill(other_.begin(), other_.end(), Complex(0));
  for (int64_t i = 0; i < length_; ++i) other_[i] = product(x[i], chirp_[i]);
  convolution_->run(other_.data(), false);
  for (int64_t i = 0; i < room; ++i) other_[i] = product(other_[i], response_[i]);
  convolution_->run(other_.data(), true);
  for (int64_t i = 0; i < length_; ++i) {
    x[i] = product(other_[i], chirp_[i]) / static_cast<double>(room);
  }
}

}  // namespace stretto
