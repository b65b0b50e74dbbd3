#include "stretto/comm/link/byte_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace stretto::comm {
namespace {

// Against one flag per byte.
TEST(ByteRanges, KnowEveryByteInAnyOrder) {
  constexpr uint64_t kBytes = 60;
  std::mt19937 random(5);  // the seed
  for (int round = 0; round < 500; ++round) {
    ByteRanges ranges;
    std::vector<bool> there(kBytes);
    for (int step = 0; step < 60; ++step) {
      const uint64_t begin = random() % kBytes, end = std::min(begin + random() % 8, kBytes);
      const bool expected =
          std::any_of(there.begin() + static_cast<ptrdiff_t>(begin),
                      there.begin() + static_cast<ptrdiff_t>(end), [](bool byte) { return byte; });
      ASSERT_EQ(ranges.overlaps(begin, end), expected)
          << "round " << round << ", " << begin << " to " << end;
      if (expected) continue;
      ranges.add(begin, end);
      std::fill(there.begin() + static_cast<ptrdiff_t>(begin),
                there.begin() + static_cast<ptrdiff_t>(end), true);
      ASSERT_EQ(ranges.bytes(),
                static_cast<uint64_t>(std::count(there.begin(), there.end(), true)));
    }
  }
}

TEST(ByteRanges, AnEmptyRangeOverlapsNothing) {
  ByteRanges ranges;
  ranges.add(0, 10);
  EXPECT_FALSE(ranges.overlaps(5, 5));
  ranges.add(3, 3);
  EXPECT_EQ(ranges.bytes(), 10u);
}

TEST(ByteRanges, WorkAtTheEndOfTheNumbers) {
  ByteRanges ranges;
  const uint64_t end = ~uint64_t{0};
  ranges.add(end - 1, end);
  EXPECT_TRUE(ranges.overlaps(0, end));
  EXPECT_FALSE(ranges.overlaps(0, end - 1));
}

}  // namespace
}  // namespace stretto::comm
