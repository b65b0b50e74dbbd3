// The rows of pool2d, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/pool2d/problem.h"

namespace stretto::kernels::pool2d {

using Row = Candidate<Pool2dProblem>;

extern const Row kSeparable;  // columns first, then rows, vectorised
extern const Row kReference;  // window by window in double

}  // namespace stretto::kernels::pool2d
