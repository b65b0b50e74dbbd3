// The rows of attention, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/attention/problem.h"

namespace stretto::kernels::attention {

using Row = Candidate<AttentionProblem>;

extern const Row kFlash;      // packed tiles, scores in the cache, running softmax
extern const Row kStream;     // few queries: reads keys and values where they lie
extern const Row kReference;  // in double

}  // namespace stretto::kernels::attention
