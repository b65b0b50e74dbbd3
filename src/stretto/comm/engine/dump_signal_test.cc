#include "stretto/comm/engine/dump_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "stretto/base/fork_testing.h"

namespace stretto::comm {
namespace {

// Waits for a call, for as long as a busy machine may need.
class Calls {
 public:
  void operator()() {
    const std::lock_guard lock(mutex_);
    ++count_;
    called_.notify_all();
  }
  bool reach(int count) {
    std::unique_lock lock(mutex_);
    return called_.wait_for(lock, std::chrono::seconds(120), [&] { return count_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable called_;
  int count_ = 0;
};

std::atomic<int> own_calls{0};
void own_handler(int) { ++own_calls; }

bool handler_is(void (*handler)(int)) {
  struct sigaction now {};
  sigaction(SIGUSR2, nullptr, &now);
  return now.sa_handler == handler;
}

TEST(DumpSignal, CallsEveryEngineWhileThereIsOne) {
  signal(SIGUSR2, SIG_DFL);
  for (int round = 1; round <= 3; ++round) {
    Calls one, other;
    {
      const DumpSignal first([&] { one(); });
      const DumpSignal second([&] { other(); });
      kill(getpid(), SIGUSR2);
      EXPECT_TRUE(one.reach(1) && other.reach(1));
    }
    kill(getpid(), SIGUSR2);  // too late, which ends nothing
    EXPECT_FALSE(handler_is(SIG_DFL));
  }
}

TEST(DumpSignal, TheProgramsOwnHandlerStays) {
  own_calls = 0;
  signal(SIGUSR2, own_handler);
  {
    const DumpSignal ours([] { ADD_FAILURE() << "it was not asked"; });
    kill(getpid(), SIGUSR2);
    EXPECT_EQ(own_calls, 1);
  }
  EXPECT_TRUE(handler_is(own_handler));
  signal(SIGUSR2, SIG_DFL);
  {  // one that is installed later
    const DumpSignal ours([] { ADD_FAILURE() << "it was replaced"; });
    signal(SIGUSR2, own_handler);
    kill(getpid(), SIGUSR2);
    EXPECT_EQ(own_calls, 2);
  }
  EXPECT_TRUE(handler_is(own_handler));
  signal(SIGUSR2, SIG_DFL);
}

// The thread sanitizer puts a handler of its own before every other, which it does not take back.
#ifndef __SANITIZE_THREAD__
TEST(DumpSignal, AForkedChildEndsAsBefore) {
  Calls calls;
  const DumpSignal ours([&] { calls(); });
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGUSR2);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2) << status;
  kill(getpid(), SIGUSR2);
  EXPECT_TRUE(calls.reach(1)) << "the parent still answers";
}

TEST(DumpSignal, AForkedChildMayHaveAnEngineOfItsOwn) {
  const DumpSignal ours([] {});
  const pid_t child = fork();
  if (child == 0) {
    alarm(120);
    if (!handler_is(SIG_DFL)) _exit(1);
    Calls calls;
    {
      const DumpSignal own([&] { calls(); });
      raise(SIGUSR2);
      if (!calls.reach(1)) _exit(2);
    }
    raise(SIGUSR2);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(handler_is(SIG_DFL)) << "the parent still answers";
}

// Both have the number 1 in their process.
TEST(DumpSignal, AnInheritedOneThatGoesLeavesThatOfTheChild) {
  std::optional<DumpSignal> ours([] {});
  EXPECT_EQ(in_a_child([&] {
              Calls calls;
              const DumpSignal own([&] { calls(); });
              ours.reset();
              raise(SIGUSR2);  // with the default action it would end the child
              return calls.reach(1) ? 0 : 1;
            }),
            0);
}
#endif

}  // namespace
}  // namespace stretto::comm
