// Sums and other folds over a set of axes.
#pragma once

#include <span>

#include "stretto/kernels/family.h"

namespace stretto::kernels {

enum class Reduction : uint8_t { kSum, kMean, kMax, kMin, kProd, kL1, kL2, kSumSquare };
std::string_view reduction_name(Reduction kind);

// Input: x, dense, of dims[0, rank). Output: y, the dimensions whose bit is not set in `reduced`,
// in order. Over nothing: sums 0, product 1, maximum -inf, minimum +inf, mean NaN. NaN wins a
// maximum. Integers have sums, products, maxima and minima; they wrap, and over nothing an extremum
// is the least or the largest number.
struct ReduceProblem {
  static constexpr int kMaxRank = 6;

  Target target{};
  int64_t dims[kMaxRank] = {1, 1, 1, 1, 1, 1};
  int32_t rank = 1;
  uint8_t reduced = 1;
  Reduction kind = Reduction::kSum;
  DType dtype = DType::kFloat32;  // or int32, int64
  uint8_t reserved = 0;
};

// Whether there are kernels for it.
bool can_reduce(Reduction kind, DType dtype);

// Neighbouring axes merged, unit axes dropped. Axes may be negative. Throws InvalidArgument for an
// axis out of range, Unsupported when more than 6 dimensions remain.
ReduceProblem reduce_problem(const Target& target, std::span<const int64_t> shape,
                             std::span<const int64_t> axes, Reduction kind,
                             DType dtype = DType::kFloat32);

std::string problem_key(const ReduceProblem& p);
Signature problem_signature(const ReduceProblem& p);
double problem_flops(const ReduceProblem& p);

extern const Family kReduce;

}  // namespace stretto::kernels
