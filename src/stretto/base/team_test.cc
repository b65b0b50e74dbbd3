#include "stretto/base/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/base/fork_testing.h"

namespace stretto {
namespace {

TEST(ThreadTeam, EveryWorkerRunsOncePerRun) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadTeam team(threads);
    std::vector<std::atomic<int>> calls(threads);
    for (int i = 0; i < 200; ++i) {
      team.run([&](const Worker& w) {
        ASSERT_EQ(w.count, threads);
        calls[w.index]++;
      });
    }
    for (auto& count : calls) EXPECT_EQ(count.load(), 200);
  }
}

TEST(ThreadTeam, SyncSeparatesPhases) {
  constexpr int kThreads = 3;
  ThreadTeam team(kThreads);
  for (int repeat = 0; repeat < 100; ++repeat) {
    std::atomic<int> first{0};
    std::atomic<bool> mixed{false};
    team.run([&](const Worker& w) {
      first++;
      w.sync();
      if (first.load() != kThreads) mixed = true;
      w.sync();
    });
    EXPECT_FALSE(mixed.load());
  }
}

TEST(ThreadTeam, RefusesSillySizes) {
  EXPECT_THROW(ThreadTeam(0), InvalidArgument);
  EXPECT_THROW(ThreadTeam(-4), InvalidArgument);
}

TEST(Split, CoversEverythingOnceOnGrainBoundaries) {
  for (int64_t total : {0, 1, 7, 64, 1000}) {
    for (int64_t grain : {1, 4, 16}) {
      for (int count : {1, 2, 3, 8}) {
        int64_t next = 0;
        for (int i = 0; i < count; ++i) {
          const Range r = split(total, Worker{i, count, nullptr}, grain);
          EXPECT_EQ(r.begin, next);
          EXPECT_LE(r.begin, r.end);
          EXPECT_TRUE(r.begin >= total || r.begin % grain == 0);
          next = r.end;
        }
        EXPECT_EQ(next, total);
      }
    }
  }
}

TEST(Split, UnitsOfAShareFollowEachOther) {
  for (int64_t total : {0, 5, 64, 1000}) {
    for (int count : {1, 3}) {
      for (int units : {2, 7}) {
        for (int i = 0; i < count; ++i) {
          const Range share = split(total, {.index = i, .count = count}, 4);
          int64_t next = share.begin;
          for (int u = 0; u < units; ++u) {
            const Range r =
                split(total, {.index = i, .count = count, .unit = u, .units = units}, 4);
            EXPECT_EQ(r.begin, next);
            EXPECT_TRUE(r.begin == share.end || r.begin % 4 == 0);
            next = r.end;
          }
          EXPECT_EQ(next, share.end);
        }
      }
    }
  }
}

TEST(ThreadTeam, AnInvitationIsAcceptedBetweenRuns) {
  std::atomic<int> guests{0}, members{0};
  ThreadTeam team(3);
  const auto accept = [](void* context, const Worker& worker) {
    if (worker.index > 0) ++*static_cast<std::atomic<int>*>(context);
  };
  for (int i = 0; i < 200; ++i) {
    team.invite(accept, &guests);
    if (i % 3 == 0) team.run([&](const Worker&) { members++; });
  }
  EXPECT_EQ(members.load(), 67 * 3);
  while (guests.load() < 2) std::this_thread::yield();  // some time, both
  EXPECT_LE(guests.load(), 200 * 2);
}

#if !defined(__SANITIZE_THREAD__)  // which ends a child that starts threads
// The sum of the workers' indices, each plus one: all of them took part.
int sum_of_workers(ThreadTeam& team) {
  std::atomic<int> sum{0};
  team.run([&](const Worker& worker) {
    worker.sync();
    sum += worker.index + 1;
  });
  return sum;
}

TEST(ThreadTeam, WorksAfterAForkInParentAndChild) {
  ThreadTeam team(3);
  EXPECT_EQ(sum_of_workers(team), 6);
  EXPECT_EQ(in_a_child([&] { return sum_of_workers(team) + sum_of_workers(team); }), 12);
  EXPECT_EQ(in_a_child([&] { return in_a_child([&] { return sum_of_workers(team); }); }), 6);
  EXPECT_EQ(sum_of_workers(team), 6);
}

TEST(ThreadTeam, IsDestroyedInAChildThatDoesNotUseIt) {
  auto team = std::make_unique<ThreadTeam>(3);
  EXPECT_EQ(sum_of_workers(*team), 6);
  EXPECT_EQ(in_a_child([&] {
              team.reset();
              return 7;
            }),
            7);
}

TEST(ThreadTeam, WorksInAChildThatIsForkedInTheMidstOfARun) {
  ThreadTeam team(3);
  std::atomic<bool> inside{false}, forked{false};
  std::thread caller([&] {
    team.run([&](const Worker& worker) {
      if (worker.index != 1) return worker.sync();  // waits at the barrier while the process forks
      inside = true;
      while (!forked) std::this_thread::yield();
      worker.sync();
    });
  });
  while (!inside) std::this_thread::yield();
  EXPECT_EQ(in_a_child([&] { return sum_of_workers(team); }), 6);
  forked = true;
  caller.join();
}
#endif

}  // namespace
}  // namespace stretto
