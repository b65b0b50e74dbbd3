// The rows of concat_channels, declared one per line; candidates.cc lists them in order of
// preference.
#pragma once

#include "stretto/kernels/concat_channels/problem.h"

namespace stretto::kernels::concat_channels {

using Row = Candidate<ConcatChannelsProblem>;

extern const Row kBlocks;     // whole channel blocks; ranges must start and end on them
extern const Row kReference;  // element by element

}  // namespace stretto::kernels::concat_channels
