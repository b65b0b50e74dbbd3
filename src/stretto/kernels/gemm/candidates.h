// The rows of gemm, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/gemm/problem.h"

namespace stretto::kernels::gemm {

using Row = Candidate<GemmProblem>;

extern const Row kPacked;     // weights packed offline for the register tile
extern const Row kReference;  // any problem; double accumulation

}  // namespace stretto::kernels::gemm
