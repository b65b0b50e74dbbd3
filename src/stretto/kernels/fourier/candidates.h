// The rows of fourier, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/fourier/problem.h"

namespace stretto::kernels::fourier {

using Row = Candidate<FourierProblem>;

extern const Row kMixedRadix;  // vectors of parts of a row or of rows; Bluestein for large primes
extern const Row kReference;   // in double

}  // namespace stretto::kernels::fourier
