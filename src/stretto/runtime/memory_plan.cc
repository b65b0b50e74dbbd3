#include "stretto/runtime/memory_plan.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace stretto::runtime {
namespace {

// Overlaps that are examined; after that, the remaining buffers share no memory. This limits
// planning to seconds; for a model whose values all live until its end it would take hours.
constexpr int64_t kMaxOverlaps = 200'000'000;

// Lifetimes by time: which of those added so far overlap another one, without looking at the rest.
class Timeline {
 public:
  explicit Timeline(int length)
      : leaves_(static_cast<int>(std::bit_ceil(static_cast<unsigned>(length)))),
        covering_(2 * static_cast<size_t>(leaves_)),
        starting_(static_cast<size_t>(length)) {}

  void add(const Lifetime& life, size_t index) {
    starting_[static_cast<size_t>(life.first)].push_back(index);
    // The largest aligned pieces that make up the lifetime.
    int begin = life.first + leaves_, end = life.last + 1 + leaves_;
    for (; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) covering_[static_cast<size_t>(begin++)].push_back(index);
      if (end % 2 == 1) covering_[static_cast<size_t>(--end)].push_back(index);
    }
  }

  // Calls f(index) once for each lifetime that overlaps: it lives when this one begins, or begins
  // while this one lives.
  template <typename F>
  void overlapping(const Lifetime& life, F&& f) const {
    for (int node = life.first + leaves_; node > 0; node /= 2) {
      for (const size_t index : covering_[static_cast<size_t>(node)]) f(index);
    }
    for (int at = life.first + 1; at <= life.last; ++at) {
      for (const size_t index : starting_[static_cast<size_t>(at)]) f(index);
    }
  }

 private:
  int leaves_;
  std::vector<std::vector<size_t>> covering_;  // a tree over time, its root at 1
  std::vector<std::vector<size_t>> starting_;
};

int64_t aligned(int64_t offset, int64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<Lifetime>& lifetimes, int64_t alignment) {
  MemoryPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  int length = 1;
  for (const Lifetime& life : lifetimes) length = std::max(length, life.last + 1);
  Timeline placed(length);
  int64_t overlaps = 0;
  std::vector<std::pair<int64_t, int64_t>> taken;  // begin, end of what lives at the same time
  for (size_t i : order) {
    const Lifetime& life = lifetimes[i];
    if (life.bytes == 0) continue;
    int64_t offset = 0;
    if (overlaps > kMaxOverlaps) {
      offset = aligned(plan.total_bytes, alignment);
    } else {
      taken.clear();
      placed.overlapping(life, [&](size_t other) {
        taken.emplace_back(plan.offsets[other], plan.offsets[other] + lifetimes[other].bytes);
      });
      overlaps += static_cast<int64_t>(taken.size()) + life.last - life.first;
      std::sort(taken.begin(), taken.end());
      for (const auto& [begin, end] : taken) {
        if (offset + life.bytes <= begin) break;
        offset = std::max(offset, aligned(end, alignment));
      }
      placed.add(life, i);
    }
    plan.offsets[i] = offset;
    plan.total_bytes = std::max(plan.total_bytes, offset + life.bytes);
  }
  return plan;
}

}  // namespace stretto::runtime
