// The rows of matmul, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/matmul/problem.h"

namespace stretto::kernels::matmul {

using Row = Candidate<MatmulProblem>;

extern const Row kPacking;    // packs z into panels as it goes
extern const Row kReference;  // any problem; double accumulation

}  // namespace stretto::kernels::matmul
