// The rows of cumsum, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/cumsum/problem.h"

namespace stretto::kernels::cumsum {

using Row = Candidate<CumSumProblem>;

extern const Row kColumns;    // many neighbouring sums at once
extern const Row kReference;  // sum by sum

}  // namespace stretto::kernels::cumsum
