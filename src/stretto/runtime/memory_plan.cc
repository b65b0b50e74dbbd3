#include "stretto/runtime/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace stretto::runtime {

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, int64_t alignment) {
  MemoryPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<size_t> placed;
  for (size_t i : order) {
    const Lifetime& life = lifetimes[i];
    if (life.bytes == 0) continue;
    std::vector<std::pair<int64_t, int64_t>> taken;  // begin, end of what lives at the same time
    for (size_t other : placed) {
      const Lifetime& o = lifetimes[other];
      if (o.first <= life.last && life.first <= o.last) {
        taken.emplace_back(plan.offsets[other], plan.offsets[other] + o.bytes);
      }
    }
    std::sort(taken.begin(), taken.end());
    int64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + life.bytes <= begin) break;
      offset = std::max(offset, (end + alignment - 1) / alignment * alignment);
    }
    plan.offsets[i] = offset;
    plan.total_bytes = std::max(plan.total_bytes, offset + life.bytes);
    placed.push_back(i);
  }
  return plan;
}

}  // namespace stretto::runtime
