// The rows of reduce, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/reduce/problem.h"

namespace stretto::kernels::reduce {

using Row = Candidate<ReduceProblem>;

extern const Row kVector;     // contiguous runs, or vectors of neighbouring outputs
extern const Row kIntegers;   // the same of int32 and int64
extern const Row kReference;  // floats in double

}  // namespace stretto::kernels::reduce
