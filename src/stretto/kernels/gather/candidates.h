// The rows of gather, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/gather/problem.h"

namespace stretto::kernels::gather {

using Row = Candidate<GatherProblem>;

extern const Row kRuns;       // one copy per index
extern const Row kReference;  // element by element

}  // namespace stretto::kernels::gather
