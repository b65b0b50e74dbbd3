// How a transform is computed, and the sines and cosines that it needs.
//
// A core transform of n complex numbers works on vectors of `lanes` independent transforms of
// n / lanes or, in columns, n numbers: any radix then needs no shuffles. In rows the lanes are
// every lanes-th element of one row, so a last pass joins them: it transposes squares of numbers
// and does transforms of `lanes` points. Transforms of 2 n real numbers are one of n complex
// numbers and a pass over the spectrum. About 5 n log2 n operations; memory is read and written
// once per radix, in planes of real and imaginary parts.
#pragma once

#include "stretto/kernels/fourier/problem.h"

namespace stretto::kernels::fourier {

enum class Way : uint8_t {
  kRow,          // the lanes are parts of a row
  kColumns,      // the lanes are rows
  kConvolution,  // Bluestein's algorithm (1970): two transforms of a longer row
};

struct Core {
  int64_t n = 1;      // numbers of a transform
  int64_t count = 1;  // of those in a lane
  int lanes = 1;
  int radices = 0;
  uint8_t radix[40] = {};
};

struct Plan {
  Way way = Way::kRow;
  bool half = false;  // real numbers, two as a complex one
  int64_t n = 1;      // complex numbers that are transformed
  Core core;          // of n numbers, or of more in a convolution
  // Where tables begin, in numbers; two planes each.
  int64_t join = 0, unfold = 0, chirp = 0, response = 0;
  int64_t table_numbers = 0;
  // Of each thread: two pairs of planes, `plane` numbers each; then a row of x and one of y.
  int64_t plane = 0, scratch_numbers = 0;
};

// Numbers that follow a plane, because whole vectors are written to its end.
inline constexpr int64_t kSlack = 16;

// From the plane of real parts of a table to that of imaginary parts.
inline int64_t padded(int64_t numbers) { return (numbers + kSlack - 1) / kSlack * kSlack + kSlack; }

Plan plan_of(const FourierProblem& p);

// Fills the table_numbers() of a plan.
template <typename T>
void write_tables(const FourierProblem& p, const Plan& plan, T* tables);

// Radices above this one have no code of their own, and a table of roots behind their twiddles.
inline constexpr int kLargestOwnRadix = 7;

// Twiddles of a pass with `inner` numbers between those it joins, and roots of its radix.
inline int64_t pass_numbers(int radix, int64_t inner) {
  return 2 * (inner - 1) * (radix - 1) + (radix > kLargestOwnRadix ? 2 * radix : 0);
}

}  // namespace stretto::kernels::fourier
