// The rows of matmul_integer, declared one per line; candidates.cc lists them in order of
// preference.
#pragma once

#include "stretto/kernels/matmul_integer/problem.h"

namespace stretto::kernels::matmul_integer {

using Row = Candidate<MatmulIntegerProblem>;

extern const Row kDots;       // four products of bytes at a time: processors with VNNI
extern const Row kPairs;      // two products of 16-bit numbers at a time: any processor
extern const Row kReference;  // any problem; sums in int64

// The zero point of x, 0 if there is none.
inline int32_t zero_point(const MatmulIntegerProblem& p, const Args& args) {
  if (!p.zero) return 0;
  return p.is_signed ? *static_cast<const int8_t*>(args.inputs[2])
                     : *static_cast<const uint8_t*>(args.inputs[2]);
}

}  // namespace stretto::kernels::matmul_integer
