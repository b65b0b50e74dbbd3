// The rows of global_pool, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/global_pool/problem.h"

namespace stretto::kernels::global_pool {

using Row = Candidate<GlobalPoolProblem>;

extern const Row kVector;     // one vectorised sum or maximum per channel
extern const Row kReference;  // double accumulation

}  // namespace stretto::kernels::global_pool
