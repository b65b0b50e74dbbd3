#include "stretto/base/dealer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "stretto/base/cores.h"
#include "stretto/base/fork_testing.h"

namespace stretto {
namespace {

// Counts what is done, and whether a unit began before the step before it had ended.
struct Ledger {
  Ledger(int threads, const std::vector<int>& units) : threads(threads), units(units) {
    for (const int n : units) {
      done.push_back(std::make_unique<std::atomic<int>[]>(static_cast<size_t>(threads * n) + 1));
    }
  }

  int total(int step) const {
    int sum = 0;
    for (int i = 0; i <= threads * units[step]; ++i) sum += done[step][i].load();
    return sum;
  }
  int expected(int step) const { return units[step] == 0 ? 1 : threads * units[step]; }

  void unit(int step, const Worker& worker) {
    if (step > 0 && total(step - 1) < runs * expected(step - 1)) early = true;
    done[step][worker.index * units[step] + worker.unit]++;
  }
  void alone(int step) {
    if (step > 0 && total(step - 1) < runs * expected(step - 1)) early = true;
    done[step][0]++;
  }

  // Every unit once per run.
  bool complete() const {
    for (size_t s = 0; s < units.size(); ++s) {
      for (int i = 0; i < std::max(1, threads * units[s]); ++i) {
        if (done[s][i].load() != runs) return false;
      }
    }
    return true;
  }

  int threads, runs = 0;
  std::vector<int> units;
  std::vector<std::unique_ptr<std::atomic<int>[]>> done;
  std::atomic<bool> early{false};
};

void run(Dealer& dealer, Ledger& ledger) {
  ++ledger.runs;
  dealer.run({.unit = [&](int step, const Worker& worker) { ledger.unit(step, worker); },
              .alone = [&](int step) { ledger.alone(step); },
              .check = [] {},
              .seconds = {}});
}

TEST(Dealer, DoesEveryUnitOnceAndStepsInOrder) {
  const std::vector<int> cpus = allowed_cpus();
  for (const int threads : {2, 3, 5}) {
    const std::vector<int> units{3, 1, 0, 4, 0, 0, 2, 7};
    Dealer dealer(threads, units);
    Ledger ledger(threads, units);
    for (int i = 0; i < 300; ++i) run(dealer, ledger);
    EXPECT_TRUE(ledger.complete());
    EXPECT_FALSE(ledger.early.load());
  }
  EXPECT_EQ(allowed_cpus(), cpus);  // of the caller, whom others may have moved
}

TEST(Dealer, OneThreadDoesEveryStepAsOneUnit) {
  Dealer dealer(1, {3, 0, 1});
  std::vector<int> seen;
  dealer.run({.unit =
                  [&](int step, const Worker& worker) {
                    EXPECT_EQ(worker.count, 1);
                    EXPECT_EQ(worker.units, 1);
                    seen.push_back(step);
                  },
              .alone = [&](int step) { seen.push_back(10 + step); },
              .check = [] {},
              .seconds = {}});
  EXPECT_EQ(seen, (std::vector<int>{0, 11, 2}));
}

TEST(Dealer, HasNoStepsAndStillReturns) {
  Dealer dealer(2, {});
  Ledger ledger(2, {});
  run(dealer, ledger);
}

// A thread that holds a unit keeps no other unit from being done.
TEST(Dealer, UnitsOfALateThreadAreDoneByOthers) {
  Dealer dealer(2, {4, 4});
  std::atomic<int> by_caller{0};
  dealer.run({.unit =
                  [&](int step, const Worker& worker) {
                    if (worker.thread != 0) {
                      while (step == 0 && by_caller.load() < 7) std::this_thread::yield();
                      return;
                    }
                    if (step == 0) {
                      // Leaves the worker time to take a unit.
                      by_caller++;
                      std::this_thread::sleep_for(std::chrono::milliseconds(2));
                    }
                  },
              .alone = [](int) {},
              .check = [] {},
              .seconds = {}});
  EXPECT_GE(by_caller.load(), 7);
}

// A worker that is awake when a run begins takes part in it: it must not find the run closed yet
// and go to sleep. Somebody sleeps elsewhere, so that the invitation takes a call of the system and
// the worker is there before the caller goes on.
TEST(Dealer, AWorkerThatComesAtOnceStays) {
  ThreadTeam asleep(2);
  asleep.run([](const Worker&) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  Dealer dealer(2, {1});
  int absent = 0;
  for (int i = 0; i < 2000 && absent < 3; ++i) {
    std::atomic<bool> came{false};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    dealer.run({.unit =
                    [&](int, const Worker& worker) {
                      if (worker.thread != 0) came = true;
                      // The caller's own unit lasts until the worker has taken its own.
                      while (worker.index == 0 && !came.load()) {
                        if (std::chrono::steady_clock::now() > deadline) break;
                        std::this_thread::yield();
                      }
                    },
                .alone = [](int) {},
                .check = [] {},
                .seconds = {}});
    absent += !came.load();
  }
  EXPECT_EQ(absent, 0);
}

TEST(Dealer, AFailedCheckEndsTheRunAndTheNextOneIsWhole) {
  const std::vector<int> units{2, 2, 2, 2};
  Dealer dealer(3, units);
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::atomic<int> inside{0}, last{0};
    const auto unit = [&](int step, const Worker&) {
      inside++;
      if (step == 3) last++;
      std::this_thread::yield();
      inside--;
    };
    bool fail = true;
    const auto check = [&] {
      if (fail) throw std::runtime_error("stop");
    };
    const auto go = [&] {
      dealer.run({.unit = unit, .alone = [](int) {}, .check = check, .seconds = {}});
    };
    // The workers may do the whole run before the caller does anything.
    try {
      go();
    } catch (const std::runtime_error&) {
      EXPECT_LT(last.load(), 7);
    }
    EXPECT_EQ(inside.load(), 0);
    fail = false;
    last = 0;
    go();
    EXPECT_EQ(last.load(), 6);
  }
}

TEST(Dealer, AStepAloneThatThrowsEndsTheRun) {
  Dealer dealer(2, {2, 0, 2});
  std::atomic<int> after{0};
  bool fail = true;
  const auto go = [&] {
    dealer.run({.unit = [&](int step, const Worker&) { after += step == 2; },
                .alone =
                    [&](int) {
                      if (fail) throw std::runtime_error("no");
                      int sum = 0;
                      dealer.team().run([&](const Worker& w) {
                        w.sync();
                        if (w.index == 0) sum = w.count;
                      });
                      EXPECT_EQ(sum, 2);
                    },
                .check = [] {},
                .seconds = {}});
  };
  for (int i = 0; i < 100; ++i) {
    after = 0;
    fail = true;
    EXPECT_THROW(go(), std::runtime_error);
    EXPECT_EQ(after.load(), 0);
    fail = false;
    go();
    EXPECT_EQ(after.load(), 4);
  }
}

TEST(Dealer, TimesEveryStep) {
  for (const int threads : {1, 2}) {
    Dealer dealer(threads, {1, 0, 2});
    std::vector<double> seconds(3);
    dealer.run(
        {.unit = [](int,
                    const Worker&) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); },
         .alone = [](int) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); },
         .check = [] {},
         .seconds = seconds});
    EXPECT_GE(seconds[0], 2e-3);
    EXPECT_GE(seconds[1], 1e-3);
    EXPECT_GE(seconds[2], 2e-3);
  }
}

#if !defined(__SANITIZE_THREAD__)  // which ends a child that starts threads
TEST(Dealer, WorksInAForkedChildAndStillInItsParent) {
  const std::vector<int> units{2, 0, 3};
  Dealer dealer(3, units);
  const auto works = [&] {
    Ledger ledger(3, units);
    run(dealer, ledger);
    run(dealer, ledger);
    return ledger.complete() ? 7 : 1;
  };
  EXPECT_EQ(works(), 7);
  EXPECT_EQ(in_a_child(works), 7);
  EXPECT_EQ(works(), 7);
}
#endif

}  // namespace
}  // namespace stretto
