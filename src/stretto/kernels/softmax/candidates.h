// The rows of softmax, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/softmax/problem.h"

namespace stretto::kernels::softmax {

using Row = Candidate<SoftmaxProblem>;

extern const Row kVector;     // three vectorised passes within the cache
extern const Row kReference;  // in double

}  // namespace stretto::kernels::softmax
