// Loaders of several ranks in one process, with one thread team and one cache.
#include <gtest/gtest.h>

#include <thread>

#include "stretto/base/clock.h"
#include "stretto/data/loader_impl.h"
#include "stretto/data/loader_testing.h"

namespace stretto::data {
namespace {

// What each rank is given in `epochs` epochs when it has a loader of its own.
std::vector<std::vector<Given>> alone(const Dataset& dataset, LoaderOptions o, int epochs) {
  std::vector<std::vector<Given>> all;
  for (o.rank = 0; o.rank < o.world; ++o.rank) {
    Loader loader(dataset, o);
    auto& mine = all.emplace_back();
    for (int epoch = 0; epoch < epochs; ++epoch) {
      for (Given& given : rest_of_epoch(loader)) mine.push_back(std::move(given));
    }
  }
  return all;
}

LoaderOptions team_options(int64_t world) {
  LoaderOptions o = small_options();
  o.world = world;
  o.last = Last::kPad;
  return o;
}

TEST(LoaderTeam, RanksGetWhatTheyGetAlone) {
  const TestPictures pictures(37);
  const Dataset dataset = pictures.as_pack();
  for (const CacheKind cache : {CacheKind::kPage, CacheKind::kUser, CacheKind::kDecoded}) {
    for (const BatchMemory memory : {BatchMemory::kOwn, BatchMemory::kShared}) {
      LoaderOptions o = team_options(3);
      o.cache = cache;
      const auto want = alone(dataset, o, 3);
      o.memory = memory;
      const auto team = make_team(dataset, o);
      std::vector<std::unique_ptr<Loader>> loaders;
      for (int64_t rank = 0; rank < 3; ++rank) {
        loaders.push_back(std::make_unique<Loader>(team, rank, 1));
      }
      std::vector<std::thread> callers;
      std::vector<std::vector<Given>> got(3);
      for (size_t rank = 0; rank < 3; ++rank) {
        callers.emplace_back([&, rank] {
          for (int epoch = 0; epoch < 3; ++epoch) {
            for (Given& given : rest_of_epoch(*loaders[rank])) {
              got[rank].push_back(std::move(given));
            }
          }
        });
      }
      for (std::thread& caller : callers) caller.join();
      EXPECT_EQ(got, want);
    }
  }
}

TEST(LoaderTeam, APictureIsDecodedOnceForAll) {
  const TestPictures pictures(20);
  LoaderOptions o = team_options(1);
  o.cache = CacheKind::kDecoded;
  const auto team = make_team(pictures.as_folder(), o);
  Loader first(team, 0, 1);
  rest_of_epoch(first);
  Loader second(team, 0, 1);
  EXPECT_EQ(first.stats().cached_samples, 20);
  for (int epoch = 0; epoch < 3; ++epoch) rest_of_epoch(second);
  const Stats s = second.stats();
  EXPECT_EQ(s.cached_samples, 20);
  // Decoded, by both together. A hit counts before its sample does, of one sample of each thread.
  EXPECT_LE(s.samples - s.cache_hits, 20);
  EXPECT_GE(s.samples - s.cache_hits, 18);
  EXPECT_GE(s.samples, 20 * 4);
  EXPECT_EQ(s.threads, 2);
  ASSERT_EQ(s.ranks.size(), 2u);
  EXPECT_EQ(s.ranks[0].batches, 5);
  EXPECT_EQ(s.ranks[1].batches, 15);
  EXPECT_EQ(s.batches, 15);
}

// One that takes nothing has its batches ahead, and the other one all threads.
TEST(LoaderTeam, ARankThatTakesNothingHoldsNobodyUp) {
  const TestPictures pictures(24);
  const Dataset dataset = pictures.as_folder();
  const LoaderOptions o = team_options(2);
  const auto want = alone(dataset, o, 4);
  const auto team = make_team(dataset, o);
  Loader slow(team, 0, 1), fast(team, 1, 1);
  std::vector<Given> got;
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (Given& given : rest_of_epoch(fast)) got.push_back(std::move(given));
  }
  EXPECT_EQ(got, want[1]);
  got.clear();
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (Given& given : rest_of_epoch(slow)) got.push_back(std::move(given));
  }
  EXPECT_EQ(got, want[0]);
}

// With one thread, and a batch of the other rank that takes long in the making: who waits is served
// before it is done.
TEST(LoaderTeam, ThreadsTurnToTheRankThatWaits) {
  const TestPictures pictures(8);
  LoaderOptions o = team_options(2);
  o.phases[0].shape = {.height = 300, .width = 300, .batch = 4};
  o.phases.push_back({.epoch = 1, .shape = {.height = 1500, .width = 1500, .batch = 256}});
  o.ahead = 1;
  const auto team = make_team(pictures.as_folder(), o);
  Loader busy(team, 0, 1), waiting(team, 1, 1);
  busy.set_epoch(1);  // both threads make its batch of 256
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const int64_t before = busy.stats().samples;
  ASSERT_TRUE(waiting.next());
  // Both threads came behind the sample that they were at; the rest of the 256 would have come
  // first. What they make until it is counted depends on how busy the machine is.
  EXPECT_LE(busy.stats().samples - before, 4 + 120);
}

TEST(LoaderTeam, RanksComeAndGoWhileOthersGoOn) {
  const TestPictures pictures(32);
  const Dataset dataset = pictures.as_folder();
  LoaderOptions o = team_options(2);
  o.cache = CacheKind::kDecoded;
  const auto want = alone(dataset, o, 1);
  const auto team = make_team(dataset, o);
  Loader stays(team, 0, 1);
  std::vector<std::thread> others;
  for (int k = 0; k < 3; ++k) {
    others.emplace_back([&, k] {
      for (int i = 0; i < 12; ++i) {
        Loader loader(team, 1, 1 + k % 2);
        for (int b = 0; b < (i + k) % 4; ++b)
          EXPECT_EQ(copy_of(*loader.next()), want[1][static_cast<size_t>(b)]);
        if (i % 3 == 0) loader.set_epoch(i);
      }
    });
  }
  for (int epoch = 0; epoch < 8; ++epoch) {
    stays.set_epoch(0);
    EXPECT_EQ(rest_of_epoch(stays), want[0]);
  }
  for (std::thread& other : others) other.join();
  EXPECT_EQ(stays.stats().ranks.size(), 1u);
}

TEST(LoaderTeam, ThreadsOfRanksThatHaveLeftEnd) {
  const TestPictures pictures(32);
  const auto team = make_team(pictures.as_folder(), team_options(2));
  Loader stays(team, 0, 1);
  for (int i = 0; i < 5; ++i) {
    const int64_t before = stays.stats().samples;
    {
      Loader leaves(team, 1, 4);
      ASSERT_TRUE(leaves.next());
      EXPECT_LE(leaves.stats().threads, 5);
    }
    const double end = now_s() + 60;
    while (stays.stats().threads > 1 && now_s() < end) std::this_thread::yield();
    EXPECT_EQ(stays.stats().threads, 1);
    EXPECT_GE(stays.stats().samples, before + 4);  // which they made
  }
  EXPECT_LE(team->counters.size(), 5u);
  EXPECT_LE(team->ended.size(), 4u);
  EXPECT_EQ(rest_of_epoch(stays).size(), 4u);
}

TEST(LoaderTeam, ItEndsWithItsLastLoader) {
  const TestPictures pictures(8);
  const auto team = make_team(pictures.as_folder(), team_options(2));
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] { Loader loader(team, 2, 1); }), "rank 2 of 2"));
  { const Loader loader(team, 0, 1); }
  EXPECT_TRUE(says(error_of<Unsupported>([&] { Loader loader(team, 1, 1); }), "has ended"));
}

}  // namespace
}  // namespace stretto::data
