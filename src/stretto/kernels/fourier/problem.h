// Discrete Fourier transforms along one axis, of whole signals or of frames of them.
#pragma once

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// y[k] = scale sum_j x[j] e^(-2 pi i j k / length), with conjugate roots and scale 1 / length where
// `inverse`, for k < kept. Complex numbers are pairs of a real and an imaginary part.
//
// Input: x [outer, size, inner, parts]. Of each signal the first `length` elements count, and zeros
// follow if it has fewer; with kept_parts 1 the first length / 2 + 1, which are half a spectrum
// whose other half is its mirror. Frame f of `frames` is elements f step, ..., all within the
// signal, times the window [length] that is the second input if `window`; then inner is 1. Output:
// y [outer, frames, kept, inner, kept_parts].
struct FourierProblem {
  Target target{};
  int64_t outer = 1, size = 1, inner = 1;
  int64_t frames = 1, step = 0;
  int64_t length = 1, kept = 1;
  uint8_t parts = 2, kept_parts = 2;  // 1: real
  uint8_t inverse = 0, window = 0;
  DType dtype = DType::kFloat32;  // or float64
  uint8_t reserved[3] = {};

  int64_t rows() const { return outer * frames * inner; }
  // Elements of a row of x that count, if it has as many.
  int64_t counted() const { return kept_parts == 1 ? length / 2 + 1 : length; }
};

// Where row `row` of p.rows() begins in x and in y, in numbers; from one element of a row to the
// next it is inner parts and inner kept_parts of them.
inline int64_t row_in_x(const FourierProblem& p, int64_t row) {
  if (p.inner == 1) return (row / p.frames * p.size + row % p.frames * p.step) * p.parts;
  return (row / p.inner * p.size * p.inner + row % p.inner) * p.parts;
}
inline int64_t row_in_y(const FourierProblem& p, int64_t row) {
  return (row / p.inner * p.kept * p.inner + row % p.inner) * p.kept_parts;
}

std::string problem_key(const FourierProblem& p);
Signature problem_signature(const FourierProblem& p);
double problem_flops(const FourierProblem& p);
std::string weights_key(const FourierProblem& p);

extern const Family kFourier;

}  // namespace stretto::kernels
