// The rows of transpose, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/transpose/problem.h"

namespace stretto::kernels::transpose {

using Row = Candidate<TransposeProblem>;

extern const Row kTiles;      // contiguous runs, or square tiles
extern const Row kReference;  // element by element

}  // namespace stretto::kernels::transpose
