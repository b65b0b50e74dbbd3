#include "stretto/base/random.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "stretto/base/philox.h"

namespace stretto {
namespace {

// The vectors of the authors' own tests (Random123, kat_vectors).
TEST(Philox, GivesTheKnownVectors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, HasOtherNumbersInEveryPlaceDrawAndKey) {
  std::set<std::array<uint32_t, 4>> all;
  for (uint64_t key : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
    for (uint64_t draw : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
      for (uint64_t place : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
        all.insert(RandomStream{key, draw}(place));
      }
    }
  }
  EXPECT_EQ(all.size(), 27);
}

TEST(RandomStream, FollowsFromTheSeed) {
  const auto draw = [] { return next_random_stream()(0); };
  manual_seed(7);
  const auto first = draw(), second = draw();
  EXPECT_NE(first, second);
  manual_seed(7);
  EXPECT_EQ(draw(), first);
  EXPECT_EQ(draw(), second);
  manual_seed(8);
  EXPECT_NE(draw(), first);
}

TEST(RandomStream, ThreadsNeverShareOne) {
  std::vector<std::vector<std::array<uint32_t, 4>>> drawn(4);
  std::vector<std::thread> threads;
  for (auto& mine : drawn) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < 500; ++i) mine.push_back(next_random_stream()(3));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::array<uint32_t, 4>> all;
  for (const auto& mine : drawn) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 2000);
}

TEST(RepeatedDraws, AreOfOneThread) {
  EXPECT_FALSE(RepeatedDraws::alive());
  const RepeatedDraws outer;
  {
    const RepeatedDraws inner;
    EXPECT_TRUE(RepeatedDraws::alive());
  }
  EXPECT_TRUE(RepeatedDraws::alive());
  bool elsewhere = true;
  std::thread([&] { elsewhere = RepeatedDraws::alive(); }).join();
  EXPECT_FALSE(elsewhere);
}

}  // namespace
}  // namespace stretto
