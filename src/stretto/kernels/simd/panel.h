// Packing a panel of a matrix that is only known at run time into the form the register tile reads.
#pragma once

#include <cstdint>

#include "stretto/base/cpu.h"

namespace stretto::kernels {

// to[i * width + j] = scale * B[i, j] for i < steps, j < columns; zero for columns <= j < width.
// B[i, j] lies at from[i * stride + j], or, when `transposed`, at from[j * stride + i]. `width` is
// a multiple of four, `to` is aligned to a vector.
void pack_panel(Isa isa, const float* from, int64_t stride, bool transposed, int64_t steps,
                int64_t columns, int64_t width, float scale, float* to);

}  // namespace stretto::kernels
