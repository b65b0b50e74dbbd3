#include "stretto/runtime/memory_plan.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace stretto::runtime
