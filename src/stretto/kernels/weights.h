// How long the weights of a kernel take to arrive, for its expectation.
#pragma once

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Bytes of weights that a thread of `target` gets from memory in a cycle of its multiplications, as
// far as it waits for them.
double weight_bytes_per_cycle(const Target& target);

// The share of the peak that a kernel keeps which multiplies each weight with `pixels` pixels and
// reads it from memory once. `cost` pixels take as long as what does not hide of that reading, on
// the machine that expectations were fitted on; the machine at hand makes it more or less.
double weight_reuse(const Target& target, double pixels, double cost);

}  // namespace stretto::kernels
