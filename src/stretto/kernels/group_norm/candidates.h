// The rows of group_norm, declared one per line; candidates.cc lists them in order of preference.
#pragma once

#include "stretto/kernels/group_norm/problem.h"

namespace stretto::kernels::group_norm {

using Row = Candidate<GroupNormProblem>;

extern const Row kVector;     // two-pass moments of each group
extern const Row kReference;  // in double

// Packed constants of every row: scale [c], then bias [c]; ones and zeros for absent ones.
size_t packed_bytes(const GroupNormProblem& p);
void pack(const GroupNormProblem& p, std::span<const Tensor> constants, std::byte* packed);
std::string packing(const GroupNormProblem& p);

}  // namespace stretto::kernels::group_norm
