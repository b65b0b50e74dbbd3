// The rows of copy_region, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/copy_region/problem.h"

namespace stretto::kernels::copy_region {

using Row = Candidate<CopyRegionProblem>;

extern const Row kRuns;       // contiguous runs, split over threads by size
extern const Row kReference;  // element by element

// The bytes of p.fill_value in p.dtype.
struct FillBytes {
  std::byte bytes[8];
};
FillBytes fill_bytes(const CopyRegionProblem& p);

}  // namespace stretto::kernels::copy_region
