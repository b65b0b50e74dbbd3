// The rows of recurrent, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/recurrent/problem.h"

namespace stretto::kernels::recurrent {

using Row = Candidate<RecurrentProblem>;

extern const Row kSteps;      // one product for all inputs, then a phase per step
extern const Row kReference;  // any problem; double accumulation

}  // namespace stretto::kernels::recurrent
