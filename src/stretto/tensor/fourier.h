// Discrete Fourier transforms in double precision, of any length in time n log n: what results are
// checked against, and what transforms are made of that kernels know before they run.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

namespace stretto {

// Powers of e^(-2 pi i / length), to about two roundings of a double. Two tables of about
// sqrt(length) numbers are multiplied, because sines of all of them would take longer than the
// transform.
class RootsOfUnity {
 public:
  explicit RootsOfUnity(int64_t length);
  // Any power >= 0.
  std::complex<double> operator()(int64_t power) const;

 private:
  int64_t length_, step_;
  std::vector<std::complex<double>> fine_, coarse_;
};

// Prime factors in ascending order; none of 1.
std::vector<int64_t> prime_factors(int64_t n);

// Factors are prime, and small ones are summed directly; Bluestein's algorithm (1970) does lengths
// with a large one.
class FourierTransform {
 public:
  explicit FourierTransform(int64_t length);  // at least 1
  ~FourierTransform();

  // y[k] = sum of x[j] e^(-2 pi i j k / length), in place; conjugate roots where `inverse`, and no
  // scaling. `x` holds `length` elements. One thread at a time.
  void run(std::complex<double>* x, bool inverse);

 private:
  void forward(std::complex<double>* x);
  void by_convolution(std::complex<double>* x);

  int64_t length_;
  RootsOfUnity roots_;
  std::vector<int64_t> factors_;
  std::vector<std::complex<double>> other_;             // half way
  std::unique_ptr<FourierTransform> convolution_;       // null: by factors
  std::vector<std::complex<double>> chirp_, response_;  // Bluestein's, and its transform
};

}  // namespace stretto
