// The vector code behind sums and averages of floating-point tensors (see reduce.h).
#pragma once

#include <cstdint>
#include <span>

#include "stretto/base/cpu.h"
#include "stretto/tensor/dtype.h"

namespace stretto::comm {

// The sources sum[begin], ..., sum[end - 1] of one host.
struct HostGroup {
  int begin = 0, end = 0;
  double divisor = 1;  // the host's sum is divided by it before it is rounded
  bool round = false;  // to the dtype
};

// to[i] = ((host sums, left to right) / divisor), i < count; dtype fp32, fp64, fp16 or bf16. fp64
// is computed in fp64, the others in fp32.
void sum_sources(Isa isa, DType dtype, std::span<const void* const> sources,
                 std::span<const HostGroup> groups, double divisor, int64_t count, void* to);

}  // namespace stretto::comm
