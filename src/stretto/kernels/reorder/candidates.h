// The rows of reorder, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/reorder/problem.h"

namespace stretto::kernels::reorder {

using Row = Candidate<ReorderProblem>;

extern const Row kTiles;      // square transposes in registers
extern const Row kReference;  // element by element

}  // namespace stretto::kernels::reorder
