// libjpeg's accurate inverse transform of 8x8 coefficients (jidctint), bit for bit.
#pragma once

#include <cstdint>

#include "stretto/base/cpu.h"

namespace stretto::media::jpeg {

// The largest sum of |coefficient| of one block for which no 16-bit number of a vector overflows:
// what a row of the first pass takes together is at most 4 * 1.388 times it. Blocks of 8-bit
// samples have less, but for patterns of single black and white pixels.
constexpr int64_t kLargestSum = 5800;

// Blocks are transformed in groups of as many as a vector has rows of eight 16-bit numbers.
constexpr int kLargestGroup = 4;
int inverse_group(Isa isa);

// One group. Coefficient (row r, column c) of block b is coefficients[(r * group + b) * 8 + c],
// dequantised; it is 0 afterwards. Sample (x, y) of block b goes to to[b][y * stride[b] + x].
// `coefficients` is aligned to 64 bytes.
void inverse_transform(int16_t* coefficients, uint8_t* const* to, const int64_t* stride, Isa isa);

// One block, as jidctint.c has it: coefficients[8 * r + c].
void inverse_reference(const int16_t* coefficients, uint8_t* to, int64_t stride);

}  // namespace stretto::media::jpeg
