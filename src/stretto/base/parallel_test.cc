#include "stretto/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/team.h"
#include "stretto/base/thread.h"
#include "stretto/base/thread_testing.h"

namespace stretto {
namespace {

TEST(RunParallel, EveryTaskOnce) {
  std::vector<std::atomic<int>> done(1000);
  std::atomic<size_t> next{0};
  run_parallel(4, [&] {
    for (size_t i = next++; i < done.size(); i = next++) ++done[i];
  });
  for (const auto& count : done) EXPECT_EQ(count.load(), 1);
}

TEST(RunParallel, RethrowsWhatAnyThreadThrew) {
  std::atomic<int> calls{0};
  EXPECT_THROW(run_parallel(3,
                            [&] {
                              if (++calls == 2) throw std::runtime_error("second");
                            }),
               std::runtime_error);
  EXPECT_EQ(calls.load(), 3);
}

TEST(Threads, ATeamThatCannotStartIsAnError) {
  EXPECT_EXIT(
      {
        forbid_threads();
        try {
          ThreadTeam team(4);
        } catch (const Unsupported& error) {
          const std::string text = error.what();
          _exit(text.starts_with("threads: the system starts 1 of 4") ? 0 : 1);
        }
        _exit(2);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Threads, AThreadThatCannotStartIsAnError) {
  EXPECT_EXIT(
      {
        forbid_threads();
        try {
          start_thread("engine", [] {}).join();
        } catch (const Unsupported& error) {
          const std::string text = error.what();
          _exit(text.starts_with("engine: the system starts no more threads") ? 0 : 1);
        }
        _exit(2);
      },
      testing::ExitedWithCode(0), "");
}

TEST(Threads, HelpersThatCannotStartAreDoneWithout) {
  EXPECT_EXIT(
      {
        forbid_threads();
        std::atomic<int> left{100};
        run_parallel(4, [&] {
          while (left > 0) --left;
        });
        _exit(left == 0 ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace stretto
