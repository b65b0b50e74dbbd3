// The edges of an engine's life: it ends while others use it, groups come and go, processes fork,
// and threads do not start.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/fork_testing.h"
#include "stretto/comm/engine/attendance.h"
#include "stretto/comm/engine/engine_testing.h"
#include "stretto/comm/engine/lifetime_testing.h"

namespace stretto::comm {
namespace {

using testing::error_of;
using testing::expect_no_errors;
using testing::first_unaware;
using testing::run_ranks;
using testing::tcp;
using testing::two_hosts;
using testing::wait_until_waiting;

Operation sum(float* x, int64_t count = 1) {
  return {.reduction = ReduceOp::kSum, .count = count, .input = x, .output = x};
}

// Sanitizers keep freed memory, so memory says nothing there.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int64_t kMemoryOverhead = 1 << 20;
#else
constexpr int64_t kMemoryOverhead = 1;
#endif

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * getpagesize();
}

size_t entries(const char* folder) {
  const std::filesystem::directory_iterator all(folder);
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST(EngineLifetime, EveryThreadThatWaitsForOneHandleReturns) {
  expect_no_errors(run_ranks(2, tcp, [](Engine& engine) {
    for (int round = 0; round < 20; ++round) {
      float x = 1;
      if (engine.membership().rank == 1)  // so that both threads of rank 0 are waiting by then
        std::this_thread::sleep_for(std::chrono::milliseconds(round % 2 * 20));
      const Handle handle = engine.submit(kWorld, sum(&x));
      std::vector<std::future<std::string>> waiters;
      std::atomic<int> waiting = 0;
      for (int i = 0; i < 3; ++i)
        waiters.push_back(std::async(std::launch::async, [&] {
          ++waiting;
          return error_of([&] { engine.wait(handle); });
        }));
      for (auto& waiter : waiters) {
        const std::string error = waiter.get();
        // One that comes late finds that the handle was waited for before.
        if (error != "no error") {
          EXPECT_EQ(error,
                    fmt::format("wait: handle {} is unknown, or was waited for before", handle));
        }
      }
      EXPECT_EQ(x, 2);
    }
  }));
}

TEST(EngineLifetime, ClosingWakesEveryoneWhoWaits) {
  std::promise<void> closed;
  const std::shared_future<void> over = closed.get_future().share();
  const auto errors = run_ranks(2, tcp, [&](Engine& engine) {
    if (engine.membership().rank == 1) {  // never submits
      over.wait();
      return;
    }
    float x = 1, y = 1;
    std::vector<float> big(1'000'000);
    const Handle handle = engine.submit(kWorld, sum(&x));
    const Handle large = engine.submit(kWorld, sum(big.data(), 1'000'000));
    engine.submit(kWorld, sum(&y), Delivery::kQueue);
    auto waiter =
        std::async(std::launch::async, [&] { return error_of([&] { engine.wait(handle); }); });
    auto second =
        std::async(std::launch::async, [&] { return error_of([&] { engine.wait(large); }); });
    auto queue = std::async(std::launch::async, [&] {
      std::vector<Completion> batch(4);
      return engine.next_completions(batch, 100);
    });
    wait_until_waiting();
    const double began = now_s();
    auto again = std::async(std::launch::async, [&] { engine.close(); });
    engine.close();
    again.get();
    EXPECT_LT(now_s() - began, 30);
    EXPECT_EQ(waiter.get(), "the engine was closed");
    EXPECT_EQ(second.get(), "the engine was closed");
    queue.get();
    const std::string closed_text = "the engine was closed";
    EXPECT_EQ(error_of([&] { engine.submit(kWorld, sum(&x)); }), closed_text);
    EXPECT_EQ(error_of([&] { engine.step(); }), closed_text);
    EXPECT_EQ(error_of([&] { engine.add_group("g", {0}); }), closed_text);
    EXPECT_EQ(error_of([&] { engine.wait(handle); }), closed_text);
    EXPECT_GT(engine.statistics().links.size(), 0u) << "what it was at the end";
    engine.abort("nothing happens");
    closed.set_value();
  });
  EXPECT_EQ(errors[0], "");
}

TEST(EngineLifetime, TheDestructorWaitsForThreadsInside) {
  const auto errors = run_ranks(2, tcp, [](Engine& engine) {
    if (engine.membership().rank == 1) wait_until_waiting();
  });
  expect_no_errors(errors);
  auto engine = Engine::create(memory_store(), {.rank = 0, .size = 1}, tcp(0));
  float x = 1;
  const Handle handle = engine->submit(
      kWorld, {.kind = Kind::kRecv, .peer = kAnyPeer, .tag = 1, .count = 1, .output = &x});
  Engine* raw = engine.get();
  auto waiter =
      std::async(std::launch::async, [&] { return error_of([&] { raw->wait(handle); }); });
  wait_until_waiting();
  engine.reset();
  EXPECT_EQ(waiter.get(), "the engine was closed");
}

TEST(EngineLifetime, NoDescriptorOrThreadOutlivesClose) {
  const size_t descriptors = entries("/proc/self/fd");
  const size_t threads = entries("/proc/self/task");
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<Engine>> engines(2);
    expect_no_errors(run_ranks(2, two_hosts, [&](Engine& engine) {
      float x = 1;
      engine.wait(engine.submit(kWorld, sum(&x)));
      engine.close();
      engine.close();
    }));
    EXPECT_EQ(entries("/proc/self/fd"), descriptors);
    EXPECT_EQ(entries("/proc/self/task"), threads);
  }
}

TEST(EngineLifetime, GroupsComeAndGoWithoutATrace) {
  expect_no_errors(run_ranks(
      2,
      [](int rank) {
        Options options = tcp(rank);
        options.tuning = Tuning::kQuick;
        options.tuning_cache = "none";
        options.codec = "int8";
        return options;
      },
      [](Engine& engine) {
        std::vector<float> x(5000, 1.0f);
        const auto cycle = [&](const std::string& name) {
          const Group group = engine.add_group(name, {1, 0});
          for (int step = 0; step < 3; ++step) {
            Operation op = sum(x.data(), 5000);
            op.name = "x";  // the engine keeps a residual for it
            engine.wait(engine.submit(group, op));
            engine.step(group);  // the engine agrees on it in a group of its own
          }
          engine.remove_group(group);
        };
        for (int i = 0; i < 300; ++i) cycle("the same name");
        for (int i = 0; i < 300; ++i) cycle(fmt::format("name {}", i));
        const int64_t before = resident_bytes();
        for (int i = 0; i < 1000; ++i) cycle(fmt::format("another name {}", i));
        // Both ranks are threads of this process. A residual alone would be 20 MB.
        EXPECT_LT(resident_bytes() - before, kMemoryOverhead << 21);
      }));
}

// Rank 1 removes a group while rank 0 has already made it again and used it.
TEST(EngineLifetime, AMessageOfTheNextGroupOfANameIsNotTakenForOneOfThis) {
  expect_no_errors(run_ranks(2, tcp, [](Engine& engine) {
    const int rank = engine.membership().rank;
    for (int round = 0; round < 50; ++round) {
      const Group group = engine.add_group("g", {0, 1});
      std::vector<float> x(static_cast<size_t>(round) + 1, 1.0f);  // another fingerprint each time
      engine.wait(engine.submit(group, sum(x.data(), static_cast<int64_t>(x.size()))));
      EXPECT_EQ(x[0], 2.0f);
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      engine.remove_group(group);
    }
  }));
}

TEST(EngineLifetime, ArrivalsBeforeTheirOperationAreNotKeptWithoutOrderCheck) {
  expect_no_errors(run_ranks(
      2,
      [](int rank) {
        Options options = tcp(rank);
        options.order_check = false;
        options.fuse_bytes = 0;
        return options;
      },
      [](Engine& engine) {
        constexpr int kAtOnce = 1000;
        std::vector<int64_t> x(kAtOnce, 1);
        const auto burst = [&] {
          std::vector<Handle> handles;
          // Rank 1 lags, so that what rank 0 sends arrives before it is asked for.
          if (engine.membership().rank == 1)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
          for (int64_t& value : x)
            handles.push_back(engine.submit(kWorld, {.dtype = DType::kInt64,
                                                     .reduction = ReduceOp::kMax,
                                                     .count = 1,
                                                     .input = &value,
                                                     .output = &value}));
          for (Handle handle : handles) engine.wait(handle);
        };
        for (int i = 0; i < 20; ++i) burst();
        const int64_t before = resident_bytes();
        for (int i = 0; i < 60; ++i) burst();
        EXPECT_LT(resident_bytes() - before, kMemoryOverhead << 20);
      }));
}

// Where a step ends, ranks agree on its time. Rank 0 ends steps of one group first, rank 1 of the
// other: nobody may wait for the other's agreement inside submit().
TEST(EngineLifetime, OppositeOrdersInTwoGroupsDoNotWaitForEachOther) {
  expect_no_errors(run_ranks(
      2,
      [](int rank) {
        Options options = tcp(rank);
        options.tuning = Tuning::kQuick;
        options.tuning_cache = "none";
        return options;
      },
      [](Engine& engine) {
        const Group a = engine.add_group("a", {0, 1}), b = engine.add_group("b", {0, 1});
        constexpr int kSteps = 40;
        constexpr int64_t kCount = 40'000;
        std::vector<std::vector<float>> data(2 * kSteps, std::vector<float>(kCount, 1.0f));
        std::vector<Handle> handles;
        const auto run = [&](Group group, int first) {
          for (int step = 0; step < kSteps; ++step) {
            handles.push_back(engine.submit(group, sum(data[first + step].data(), kCount)));
            engine.step(group);
          }
        };
        const bool forward = engine.membership().rank == 0;
        run(forward ? a : b, forward ? 0 : kSteps);
        run(forward ? b : a, forward ? kSteps : 0);
        for (Handle handle : handles) engine.wait(handle);
        for (const auto& x : data) ASSERT_EQ(x[kCount - 1], 2.0f);
      }));
}

TEST(EngineLifetime, ATimeoutOfOneOperationNamesIt) {
  const auto errors = run_ranks(2, tcp, [](Engine& engine) {
    float x = 1;
    if (engine.membership().rank == 1) {
      engine.wait(engine.submit(
          kWorld, {.kind = Kind::kRecv, .peer = 0, .tag = 9, .count = 1, .output = &x}));
      return;
    }
    Operation op = sum(&x);
    op.name = "late";
    op.timeout_s = 0.3;
    engine.wait(engine.submit(kWorld, op));
  });
  for (const std::string& error : errors)
    EXPECT_EQ(error,
              "all_reduce of 1 float32 (sum), 'late' is not done after 0.3 s (the timeout of "
              "group 'world'); rank 0 waits for rank 1");
}

// Rank 0's operation is under way while its only other thread attends, and then does not.
TEST(EngineLifetime, OneThreadPollsWhileAnotherAttends) {
  expect_no_errors(run_ranks(2, two_hosts, [](Engine& engine) {
    if (engine.membership().rank == 1) {
      for (int i = 0; i < 3; ++i) {
        wait_until_waiting();
        float x = 1;
        engine.wait(engine.submit(kWorld, sum(&x)));
      }
      return;
    }
    std::atomic<bool> called{false};
    std::atomic<int> visits{0};
    std::thread attendant([&] {
      Attendance attendance(engine);
      while (!called) {
        ++visits;
        attendance.wait([&] { return called.load(); }, 0.01);
      }
      attendance.end();
      attendance.end();
    });
    float x = 1;
    engine.wait(engine.submit(kWorld, sum(&x)));
    float y = 1;
    const Handle queued = engine.submit(kWorld, sum(&y), Delivery::kQueue);
    std::vector<Completion> done(1);
    EXPECT_EQ(engine.next_completions(done, 60), 1u);
    EXPECT_EQ(done[0].handle, queued);
    while (visits < 3) std::this_thread::yield();  // it comes back when the time is over
    called = true;
    engine.call_attendants();
    attendant.join();
    engine.submit(kWorld, sum(&x), Delivery::kQueue);
    EXPECT_EQ(engine.next_completions(done, 60), 1u) << "the progress thread polls again";
  }));
}

TEST(EngineLifetime, AttendingEndsWithTheEngine) {
  auto engine = Engine::create(memory_store(), {.rank = 0, .size = 1}, tcp(0));
  std::atomic<bool> inside{false};
  const auto asked = [&] {
    inside = true;
    return false;
  };
  std::thread attendant([&] {
    Attendance attendance(*engine);
    EXPECT_NO_THROW(attendance.wait(asked, 3600));
    EXPECT_THROW(attendance.wait(asked, 3600), CommError);
  });
  while (!inside) std::this_thread::yield();
  engine->close();
  attendant.join();
}

TEST(EngineLifetime, EveryMethodSaysThatTheProcessWasForked) {
  auto engine = Engine::create(memory_store(), {.rank = 0, .size = 1}, tcp(0));
  float x = 1;
  const Handle handle = engine->submit(kWorld, sum(&x));
  // All but close(), which works in a child, and what returns a constant of the engine.
  const std::vector<std::function<void()>> methods = {
      [&] { engine->add_group("g", {0}); },
      [&] { engine->remove_group(7); },
      [&] { engine->submit(kWorld, sum(&x)); },
      [&] {
        std::vector<Handle> handles;
        engine->submit_together(kWorld, {sum(&x)}, &handles);
      },
      [&] { engine->step(); },
      [&] { engine->link_model(); },
      [&] { engine->poll(handle); },
      [&] { engine->source(handle); },
      [&] { engine->awaited(handle); },
      [&] { engine->wait(handle); },
      [&] { engine->deliver(handle); },
      [&] {
        std::vector<Completion> batch(1);
        engine->next_completions(batch, 10);
      },
      [&] { engine->interrupt(); },
      [&] { engine->attend([] { return true; }, 10, true); },
      [&] { engine->dismiss(); },
      [&] { engine->call_attendants(); },
      [&] { engine->abort("no"); },
      [&] { engine->report({}); },
      [&] { engine->take_non_finite(); },
      [&] { engine->statistics(); },
      [&] { engine->trace_json(); },
      [&] { engine->start_trace(); },
      [&] { engine->stop_trace(); },
      [&] { engine->flight_json("why"); },
  };
  const int first = in_a_child([&] {
    const int unaware = first_unaware(methods);
    engine->close();
    engine.reset();
    return unaware;
  });
  EXPECT_EQ(first, 0) << "the number of the method that did not, from 1; -1: it hung";
  engine->wait(handle);
}

// In a child of its own, because the limit holds for the whole process; not as root, whom it does
// not bind.
TEST(EngineLifetime, AThreadThatDoesNotStartIsAnError) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(3);
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(4);
    const std::string error =
        error_of([] { Engine::create(memory_store(), {.rank = 0, .size = 1}, tcp(0)); });
    _exit(error.find("thread") == std::string::npos ? 5 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status)) << "it was terminated";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace stretto::comm
