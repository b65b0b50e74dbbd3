// The rows of resize, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/resize/problem.h"

namespace stretto::kernels::resize {

using Row = Candidate<ResizeProblem>;

extern const Row kSeparable;  // rows first, then along the row, from tables made when packing
extern const Row kBytes;      // the same in whole numbers, for bytes
extern const Row kReference;  // tap by tap in double

}  // namespace stretto::kernels::resize
