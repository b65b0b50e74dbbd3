// The rows of elementwise, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/elementwise/problem.h"

namespace stretto::kernels::elementwise {

using Row = Candidate<ElementwiseProblem>;

extern const Row kStrips;     // every instruction over strips that stay in the first-level cache
extern const Row kIntegers;   // the same for integers and bool
extern const Row kDoubles;    // the same for float64
extern const Row kReference;  // element by element in double, or in the integer type

}  // namespace stretto::kernels::elementwise
