// The vector activations as a plain function, for tests and for one-off use.
#pragma once

#include <cstdint>

#include "stretto/base/cpu.h"
#include "stretto/kernels/epilogue.h"

namespace stretto::kernels {

// y[i] = activation(x[i]) for i < count, with the vector code of `isa`. x may equal y.
void activate_array(Isa isa, Activation activation, float alpha, float beta, const float* x,
                    float* y, int64_t count);

}  // namespace stretto::kernels
