#include "stretto/runtime/executor_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <thread>

#include "stretto/base/cpu.h"
#include "stretto/base/error.h"
#include "stretto/base/fork_testing.h"
#include "stretto/base/memory.h"
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

// As many callers as cores: each has one to itself, also where a team has all cores.
TEST(ExecutorPool, ManyCallersRunAlone) {
  const int cores = cpu_info().cores;
  if (cores < 2) GTEST_SKIP() << "one core";
  const Model model = model_of(kSmallNet, cores);
  const Program& program = *model.state().program;
  EXPECT_EQ(alone_limit(cores), 2 * cores - 1);
  EXPECT_EQ(alone_limit(1), cores);
  Tensor x(DType::kFloat32, model.inputs()[0].shape);
  for (int64_t i = 0; i < x.count(); ++i)
    x.mutable_values<float>()[i] = static_cast<float>(i % 13) / 13;
  const auto expected = Session(model).run({x});
  ExecutorPool pool(program);
  std::vector<std::unique_ptr<ExecutorPool::Lease>> leases;
  std::set<Executor*> executors;
  leases.push_back(std::make_unique<ExecutorPool::Lease>(pool));
  EXPECT_FALSE(ExecutorPool::Inside::crowded());
  executors.insert(&leases.back()->executor());
  for (int i = 1; i < cores; ++i) {
    // As callers of other sessions are.
    std::vector<std::unique_ptr<ExecutorPool::Inside>> more(static_cast<size_t>(cores));
    for (auto& inside : more) inside = std::make_unique<ExecutorPool::Inside>();
    EXPECT_TRUE(ExecutorPool::Inside::crowded());
    leases.push_back(std::make_unique<ExecutorPool::Lease>(pool));
    executors.insert(&leases.back()->executor());
    std::vector<Tensor> results;
    std::vector<void*> to;
    for (const TensorSpec& spec : program.outputs) {
      results.emplace_back(spec.dtype, spec.shape);
      to.push_back(results.back().mutable_data());
    }
    const void* from[] = {x.data()};
    leases.back()->run(from, to);
    for (size_t o = 0; o < results.size(); ++o) {
      EXPECT_EQ(std::memcmp(results[o].data(), expected[o].data(), results[o].bytes()), 0);
    }
  }
  EXPECT_EQ(executors.size(), static_cast<size_t>(cores)) << "none is shared";
  leases.clear();
  EXPECT_FALSE(ExecutorPool::Inside::crowded());
}

TEST(ExecutorPool, CallersWaitWhereMemoryIsShort) {
  const Model model = model_of(kSmallNet);
  ExecutorPool pool(*model.state().program, 1, nullptr, 1);
  std::vector<std::unique_ptr<ExecutorPool::Inside>> crowd(static_cast<size_t>(cpu_info().cores));
  for (auto& inside : crowd) inside = std::make_unique<ExecutorPool::Inside>();
  auto held = std::make_unique<ExecutorPool::Lease>(pool);
  Executor* const first = &held->executor();
  std::atomic<Executor*> got{nullptr};
  int64_t taken = 0;  // all there is
  for (int64_t step = total_memory_bytes(); step > 0; step /= 2) {
    try {
      take_memory(step);
      taken += step;
    } catch (const Unsupported&) {
    }
  }
  std::thread late([&] { got = &ExecutorPool::Lease(pool).executor(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(got.load(), nullptr);
  held.reset();
  late.join();
  EXPECT_EQ(got.load(), first);
  return_memory(taken);
  held = std::make_unique<ExecutorPool::Lease>(pool);
  EXPECT_NE(&ExecutorPool::Lease(pool).executor(), first) << "there is memory again";
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
