#include "stretto/comm/negotiate/name_numbers.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace stretto::comm {
namespace {

// Few different low bits, so that most names stand in each other's places.
TEST(NameNumbers, DoesWhatAHashTableOfTheLibraryDoes) {
  std::mt19937_64 random(7);
  NameNumbers numbers;
  std::unordered_map<uint64_t, int> expected;
  for (int turn = 0; turn < 20000; ++turn) {
    const uint64_t hash = (random() % 40) << 32 | random() % 50;
    if (random() % 3 == 0) {
      numbers.erase(hash);
      expected.erase(hash);
    } else if (expected.emplace(hash, turn).second) {
      numbers.insert(hash, turn);
    }
    if (turn % 5000 == 4999) {
      for (uint64_t high = 0; high < 40; ++high)
        for (uint64_t low = 0; low < 50; ++low) numbers.erase(high << 32 | low);
      expected.clear();
    }
    ASSERT_EQ(numbers.size(), expected.size());
    const uint64_t other = (random() % 40) << 32 | random() % 50;
    for (const uint64_t asked : {hash, other}) {
      const auto found = expected.find(asked);
      ASSERT_EQ(numbers.find(asked), found == expected.end() ? NameNumbers::kNone : found->second)
          << turn;
    }
  }
}

TEST(NameNumbers, KnowsNothingWhenItIsNew) {
  NameNumbers numbers;
  EXPECT_EQ(numbers.find(0), NameNumbers::kNone);
  numbers.erase(0);
  EXPECT_EQ(numbers.size(), 0u);
  numbers.insert(0, 3);
  EXPECT_EQ(numbers.find(0), 3);
}

}  // namespace
}  // namespace stretto::comm
