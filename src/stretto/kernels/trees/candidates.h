// The rows of trees, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/trees/problem.h"

namespace stretto::kernels::trees {

using Row = Candidate<TreesProblem>;

extern const Row kWalk;  // several walks at once

}  // namespace stretto::kernels::trees
