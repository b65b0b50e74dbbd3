// What a product of matrices by quarters (Strassen) does beside its seven products: sums of
// quarters of A before them, and results from sums of products after them.
#pragma once

#include <array>
#include <cstdint>

#include "stretto/base/cpu.h"
#include "stretto/kernels/epilogue.h"

namespace stretto::kernels {

// to[i] = a[i] + b[i], or a[i] - b[i]. `to` may be `a` or `b`; `count` is a multiple of the lanes.
void add(Isa isa, const float* a, const float* b, float* to, int64_t count);
void subtract(Isa isa, const float* a, const float* b, float* to, int64_t count);

// c[i] = epilogue(sum of the terms[.][i] + bias) for `rows` vectors i that adjoin, with one vector
// of `bias`. Terms may be null; `residual` may be null or `c`.
void finish_sums(Isa isa, const Epilogue& e, std::array<const float*, 3> terms, const float* bias,
                 const float* residual, float* c, int64_t rows);

}  // namespace stretto::kernels
