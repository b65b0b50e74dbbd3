#include "stretto/runtime/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace stretto::runtime {
namespace {

TEST(MemoryPlan, NothingAliveTogetherOverlaps) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> lives;
    for (int i = 0; i < 40; ++i) {
      const int first = static_cast<int>(random() % 30);
      lives.push_back(
          {static_cast<int64_t>(random() % 1000), first, first + static_cast<int>(random() % 6)});
    }
    const MemoryPlan plan = plan_memory(lives, 64);
    for (size_t a = 0; a < lives.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % 64, 0);
      EXPECT_LE(plan.offsets[a] + lives[a].bytes, plan.total_bytes);
      for (size_t b = 0; b < a; ++b) {
        const bool together = lives[a].first <= lives[b].last && lives[b].first <= lives[a].last;
        const bool overlap = plan.offsets[a] < plan.offsets[b] + lives[b].bytes &&
                             plan.offsets[b] < plan.offsets[a] + lives[a].bytes;
        EXPECT_FALSE(together && overlap) << "seed 3 round " << round;
      }
    }
  }
}

TEST(MemoryPlan, AChainNeedsTwoBuffers) {
  std::vector<Lifetime> lives;
  for (int i = 0; i < 10; ++i) lives.push_back({128, i, i + 1});
  EXPECT_EQ(plan_memory(lives, 64).total_bytes, 256);
}

// The definition: every pair is compared.
MemoryPlan by_pairs(const std::vector<Lifetime>& lives, int64_t alignment) {
  MemoryPlan plan{.offsets = std::vector<int64_t>(lives.size(), 0)};
  std::vector<size_t> order(lives.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lives[a].bytes > lives[b].bytes; });
  for (size_t i = 0; i < order.size(); ++i) {
    const Lifetime& life = lives[order[i]];
    if (life.bytes == 0) continue;
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t j = 0; j < i; ++j) {
      const Lifetime& o = lives[order[j]];
      if (o.bytes == 0 || o.first > life.last || life.first > o.last) continue;
      taken.emplace_back(plan.offsets[order[j]], plan.offsets[order[j]] + o.bytes);
    }
    std::sort(taken.begin(), taken.end());
    int64_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + life.bytes <= begin) break;
      offset = std::max(offset, (end + alignment - 1) / alignment * alignment);
    }
    plan.offsets[order[i]] = offset;
    plan.total_bytes = std::max(plan.total_bytes, offset + life.bytes);
  }
  return plan;
}

TEST(MemoryPlan, IsTheGreedyOne) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lives;
    const int steps = 1 + static_cast<int>(random() % 70);
    for (int i = 0; i < 60; ++i) {
      const int first = static_cast<int>(random() % static_cast<unsigned>(steps));
      const int left = steps - first,
                length = static_cast<int>(random() % static_cast<unsigned>(left));
      lives.push_back({static_cast<int64_t>(random() % 500), first, first + length});
    }
    const MemoryPlan plan = plan_memory(lives, 64), expected = by_pairs(lives, 64);
    EXPECT_EQ(plan.offsets, expected.offsets) << "seed 5 round " << round;
    EXPECT_EQ(plan.total_bytes, expected.total_bytes);
  }
}

}  // namespace
}  // namespace stretto::runtime
