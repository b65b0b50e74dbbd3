// Static memory planning: offsets for buffers whose lifetimes are known.
#pragma once

#include <cstdint>
#include <vector>

namespace stretto::runtime {

// A buffer alive from instruction `first` to `last`, both included.
struct Lifetime {
  int64_t bytes = 0;
  int first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // parallel to the lifetimes; multiples of the alignment
  int64_t total_bytes = 0;
};

// Largest first, each at the lowest offset free during its lifetime (Pisarchyk & Lee, 2020, greedy
// by size). Buffers alive at the same instruction never overlap.
MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, int64_t alignment);

}  // namespace stretto::runtime
