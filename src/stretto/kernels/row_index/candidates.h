// The rows of row_index, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/row_index/problem.h"

namespace stretto::kernels::row_index {

using Row = Candidate<RowIndexProblem>;

extern const Row kReference;  // element by element

}  // namespace stretto::kernels::row_index
