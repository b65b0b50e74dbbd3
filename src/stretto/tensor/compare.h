// How far computed values are from those that were expected: the one rule that every check of a
// result follows.
#pragma once

#include <cstdint>

#include "stretto/tensor/tensor.h"

namespace stretto {

struct Difference {
  double relative_to_max = 0;  // max_abs over max |expected|
  double max_abs = 0;          // max |got - expected|
  int64_t worst_index = -1;    // where max_abs is; -1: no pair of values differs
  double got = 0, expected = 0;
  bool only_nan = false;  // every expected value is NaN
};

// Collects pairs of values. Equal values, NaN for NaN included, do not differ; any other pair with
// a value that is not finite differs by infinity. When every expected value is NaN nothing can be
// learnt from them, and the result is infinity whatever was got. No values at all do not differ.
class Comparison {
 public:
  void add(int64_t index, double got, double expected);
  Difference result() const;

 private:
  Difference worst_;
  double largest_ = 0;
  int64_t count_ = 0, nan_ = 0;
};

// All values of two tensors of one shape. When `expected` holds integers or bools, any difference
// counts as 1. Throws InvalidArgument for different shapes.
Difference compare(const Tensor& got, const Tensor& expected);

}  // namespace stretto
