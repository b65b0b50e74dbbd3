// The rows of layer_norm, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/layer_norm/problem.h"

namespace stretto::kernels::layer_norm {

using Row = Candidate<LayerNormProblem>;

extern const Row kVector;     // two-pass moments, rows in the cache
extern const Row kReference;  // in double

// Packed constants of every row: scale [n], then bias [n]; ones and zeros for absent ones.
size_t packed_bytes(const LayerNormProblem& p);
void pack(const LayerNormProblem& p, std::span<const Tensor> constants, std::byte* packed);
std::string packing(const LayerNormProblem& p);

}  // namespace stretto::kernels::layer_norm
