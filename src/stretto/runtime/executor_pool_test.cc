#include "stretto/runtime/executor_pool.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "stretto/base/cpu.h"
#include "stretto/base/fork_testing.h"
#include "stretto/runtime/load_and_run.h"
#include "stretto/runtime/testing.h"
#include "stretto/tensor/compare.h"

namespace stretto::runtime {
namespace {

TEST(ExecutorPool, TheLimitFollowsTheCores) {
  const int cores = cpu_info().cores;
  EXPECT_EQ(executor_limit(1), cores);
  EXPECT_EQ(executor_limit(cores), 1);
  EXPECT_EQ(executor_limit(cores + 1), 1);
}

TEST(ExecutorPool, LeasesAreDifferentUntilTheyEnd) {
  const Model model = model_of(kSmallNet);
  ExecutorPool pool(*model.state().program, 3);
  Executor* first = nullptr;
  {
    ExecutorPool::Lease a(pool), b(pool), c(pool);
    EXPECT_EQ((std::set{&a.executor(), &b.executor(), &c.executor()}.size()), 3u);
    first = &a.executor();
  }
  EXPECT_EQ(&ExecutorPool::Lease(pool).executor(), first);
}

TEST(ExecutorPool, OneMoreCallerWaitsForTheFirstThatIsDone) {
  const Model model = model_of(kSmallNet);
  ExecutorPool pool(*model.state().program, 2);
  auto a = std::make_unique<ExecutorPool::Lease>(pool);
  const ExecutorPool::Lease b(pool);
  Executor* freed = &a->executor();
  std::atomic<Executor*> got{nullptr};
  std::thread late([&] { got = &ExecutorPool::Lease(pool).executor(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(got.load(), nullptr);
  a.reset();
  late.join();
  EXPECT_EQ(got.load(), freed);
}

// Whoever is not woken hangs here for good.
TEST(ExecutorPool, NobodyIsForgotten) {
  const Model model = model_of(kSmallNet);
  ExecutorPool pool(*model.state().program, 2);
  std::atomic<int> inside{0}, most{0}, turns{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 70; ++i) {
    callers.emplace_back([&] {
      for (int k = 0; k < 200; ++k) {
        const ExecutorPool::Lease lease(pool);
        const int now = ++inside;
        for (int old = most; now > old && !most.compare_exchange_weak(old, now);) {
        }
        ++turns;
        --inside;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(turns.load(), 70 * 200);
  EXPECT_LE(most.load(), 2);
}

#if !defined(__SANITIZE_THREAD__)  // which ends a child that starts threads
TEST(ExecutorPool, AChildDoesNotWaitForLeasesOfItsParent) {
  const Model model = model_of(kSmallNet, 2);
  ExecutorPool pool(*model.state().program, 1);
  const ExecutorPool::Lease held(pool);
  EXPECT_EQ(in_a_child([&] {
              ExecutorPool::Lease(pool).executor();
              ExecutorPool::Lease(pool).executor();
              return 7;
            }),
            7);
}

#if !defined(__SANITIZE_ADDRESS__)  // whose allocator may be locked in the child
TEST(ExecutorPool, AChildThatWasForkedDuringARunComputesTheSame) {
  const Model model = model_of(kSmallNet, 2);
  Session session(model);
  const Tensor x = varied_input(model.inputs()[0]);
  const Tensor expected = session.run({x})[0];
  std::atomic<int> turns{0};
  std::atomic<bool> enough{false};
  std::thread other([&] {
    while (!enough) {
      session.run({x});
      ++turns;
    }
  });
  while (turns < 3) std::this_thread::yield();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(in_a_child([&] { return compare(session.run({x})[0], expected).max_abs == 0; }), 1);
  }
  enough = true;
  other.join();
}
#endif
#endif

}  // namespace
}  // namespace stretto::runtime
