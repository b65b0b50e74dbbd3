#include "stretto/comm/engine/polling.h"

#include <gtest/gtest.h>

#include <atomic>

namespace stretto::comm {
namespace {

using Turn = Polling::Turn;
using Wake = Polling::Wake;

constexpr Wake kNobody{};
constexpr Wake kProgress{.progress = true};
constexpr Wake kWaiters{.waiters = true};

constexpr double kNow_s = 100, kSpin_s = 0.25;  // such times add up without rounding

// As if another thread polled.
void begin_elsewhere(Polling& polling) {
  std::thread([&] { polling.begin(); }).join();
}

TEST(Polling, TheProgressThreadPollsWhenNobodyWaits) {
  Polling polling;
  EXPECT_EQ(polling.progress_pause_s(1, kNow_s), 0);
  EXPECT_EQ(polling.progress_pause_s(0, kNow_s), 0);
  polling.begin_wait();
  EXPECT_GT(polling.progress_pause_s(1, kNow_s), 0);
  polling.end_wait(1, kNow_s);
  EXPECT_EQ(polling.progress_pause_s(1, kNow_s), 0) << "an operation that nobody waits for";
  begin_elsewhere(polling);
  EXPECT_GT(polling.progress_pause_s(1, kNow_s), 0);
  polling.end();
  EXPECT_EQ(polling.progress_pause_s(1, kNow_s), 0);
}

TEST(Polling, TheProgressThreadStaysAwayAfterAWaitWhileNothingIsUnderWay) {
  Polling polling;
  polling.begin_wait();
  polling.end_wait(0, kNow_s);
  EXPECT_GT(polling.progress_pause_s(0, kNow_s + 0.009), 0);
  EXPECT_EQ(polling.progress_pause_s(0, kNow_s + 0.011), 0);
  EXPECT_EQ(polling.progress_pause_s(1, kNow_s + 0.009), 0);
}

TEST(Polling, TheProgressThreadStaysAwayLongestWhileAnotherAttends) {
  Polling polling;
  polling.begin_wait();
  const double waited_for_s = polling.progress_pause_s(1, kNow_s);
  polling.begin_attend(true);
  EXPECT_GT(polling.progress_pause_s(1, kNow_s), waited_for_s);
  polling.end_attend();
  EXPECT_GT(polling.progress_pause_s(1, kNow_s), waited_for_s) << "it will come back";
  polling.dismiss(1);
  EXPECT_EQ(polling.progress_pause_s(1, kNow_s), waited_for_s);
}

TEST(Polling, AWaiterSpinsThenPollsAndSleepsWhileAnotherPolls) {
  Polling polling;
  polling.set_cores(2, 2);
  const Spin spin = polling.spin(kNow_s, kSpin_s, 4, false);
  EXPECT_EQ(polling.turn(false, spin, kNow_s), Turn::kSpin);
  EXPECT_EQ(polling.turn(true, spin, kNow_s), Turn::kPoll) << "there is a sum to compute";
  EXPECT_EQ(polling.turn(false, spin, kNow_s + kSpin_s), Turn::kPoll);
  begin_elsewhere(polling);
  for (const bool has_local_steps : {false, true})
    for (const double now_s : {kNow_s, kNow_s + kSpin_s})
      EXPECT_EQ(polling.turn(has_local_steps, spin, now_s), Turn::kSleep);
  polling.end();
  polling.stop();
  EXPECT_EQ(polling.turn(true, spin, kNow_s + kSpin_s), Turn::kSleep) << "the engine closes";
}

TEST(Polling, SpinsForStrettosOwnMessagesOnlyWhereEachRankHasACore) {
  Polling polling;
  EXPECT_TRUE(polling.spin(kNow_s, kSpin_s, 4, true).over(kNow_s));
  EXPECT_FALSE(polling.spin(kNow_s, kSpin_s, 4, false).over(kNow_s));
  EXPECT_TRUE(polling.spin(kNow_s, kSpin_s, kSmallBytes + 1, false).over(kNow_s));
  polling.set_cores(2, 2);
  EXPECT_FALSE(polling.spin(kNow_s, kSpin_s, 4, true).over(kNow_s));
  EXPECT_FALSE(polling.spin(kNow_s, kSpin_s, kSmallBytes + 1, false).over(kNow_s));
}

TEST(Polling, AHelperNeedsASecondCorePerRank) {
  Polling polling;
  EXPECT_FALSE(polling.helps());
  polling.set_cores(3, 2);
  EXPECT_FALSE(polling.helps());
  polling.set_cores(4, 2);
  EXPECT_TRUE(polling.helps());
}

TEST(Polling, TheLastThatWaitsHandsOverToTheProgressThread) {
  Polling polling;
  polling.begin_wait();
  polling.begin_wait();
  EXPECT_EQ(polling.end_wait(1, kNow_s), kWaiters);
  EXPECT_EQ(polling.end_wait(1, kNow_s), kProgress);
  polling.begin_wait();
  EXPECT_EQ(polling.end_wait(0, kNow_s), kNobody) << "there is nothing to poll for";
  polling.begin_wait();
  begin_elsewhere(polling);
  EXPECT_EQ(polling.end_wait(1, kNow_s), kNobody) << "another thread polls";
}

TEST(Polling, AThreadThatHasPolledHandsOverToThoseThatWait) {
  Polling polling;
  EXPECT_EQ(polling.after_poll(), kNobody);
  polling.begin_wait();
  EXPECT_EQ(polling.after_poll(), kWaiters);
}

TEST(Polling, AnOperationWakesTheProgressThreadUnlessAnotherPolls) {
  Polling polling;
  EXPECT_EQ(polling.on_begun(), kProgress);
  polling.begin();
  EXPECT_EQ(polling.on_begun(), kNobody);
  polling.end();
  polling.begin_attend(true);
  EXPECT_EQ(polling.on_begun(), kNobody);
  EXPECT_EQ(polling.end_attend(), kNobody);
  EXPECT_EQ(polling.on_begun(), kNobody) << "the thread that attends comes back";
}

TEST(Polling, DismissingTheLastAttendantWakesTheProgressThreadForWhatIsUnderWay) {
  Polling polling;
  polling.begin_attend(true);
  polling.begin_attend(true);
  EXPECT_EQ(polling.end_attend(), kWaiters);
  polling.end_attend();
  EXPECT_EQ(polling.dismiss(1), kNobody);
  begin_elsewhere(polling);
  EXPECT_EQ(polling.dismiss(1), kProgress) << "the thread that polls may be about to leave";
  polling.begin_attend(true);
  polling.end_attend();
  EXPECT_EQ(polling.dismiss(0), kNobody);
  polling.begin_attend(true);
  polling.end_attend();
  polling.begin_wait();
  EXPECT_EQ(polling.dismiss(1), kNobody) << "a thread that waits polls";
}

TEST(Polling, LocalStepsWakeWhoeverCanRunThem) {
  Polling polling;
  EXPECT_EQ(polling.on_local_steps(0), kNobody);
  EXPECT_EQ(polling.on_local_steps(1), kProgress);
  EXPECT_EQ(polling.on_local_steps(2), (Wake{.progress = true, .helper = true}));
  polling.begin();
  EXPECT_EQ(polling.on_local_steps(1), kNobody) << "this thread runs them";
  EXPECT_EQ(polling.on_local_steps(2), Wake{.helper = true});
  begin_elsewhere(polling);
  EXPECT_EQ(polling.on_local_steps(1), Wake{.poller = true});
}

TEST(Polling, TheEndOfAnOperationWakesThoseThatWaitAlsoFromPolling) {
  Polling polling;
  begin_elsewhere(polling);
  EXPECT_EQ(polling.on_over(), kNobody);
  polling.begin_wait();
  EXPECT_EQ(polling.on_over(), (Wake{.waiters = true, .poller = true}));
  polling.begin();
  EXPECT_EQ(polling.on_over(), kWaiters) << "this thread polls, and looks for itself";
}

TEST(Polling, ACallWakesThoseThatAttendAndNobodyElse) {
  Polling polling;
  polling.begin_wait();
  EXPECT_EQ(polling.on_call(), kNobody);
  polling.end_wait(0, kNow_s);
  polling.begin_attend(true);
  EXPECT_EQ(polling.on_call(), kWaiters);
  begin_elsewhere(polling);
  EXPECT_EQ(polling.on_call(), (Wake{.waiters = true, .poller = true}));
  polling.end_attend();
  EXPECT_EQ(polling.on_call(), kNobody) << "the one that attends is awake";
}

// One that is not woken would sleep for an hour.
TEST(Polling, WakesWhoSleeps) {
  Polling polling;
  std::mutex mutex;
  std::atomic<int> asleep = 0;
  bool over = false;  // with the lock
  const auto sleeper = [&](auto sleep) {
    return std::thread([&, sleep] {
      Polling::Lock lock(mutex);
      ++asleep;
      while (!over) sleep(lock);
    });
  };
  constexpr double kHour_s = 3600;
  std::thread progress = sleeper([&](auto& lock) { polling.sleep_progress(lock, kHour_s); });
  std::thread helper = sleeper([&](auto& lock) { polling.sleep_helper(lock); });
  std::thread first = sleeper([&](auto& lock) { polling.sleep_waiting(lock, kHour_s); });
  std::thread second = sleeper([&](auto& lock) { polling.sleep_waiting(lock, kHour_s); });
  while (asleep < 4) std::this_thread::yield();
  {
    Polling::Lock lock(mutex);
    over = true;
  }
  polling.wake({.waiters = true});
  first.join();
  second.join();
  polling.wake({.helper = true});
  helper.join();
  polling.wake({.progress = true});
  progress.join();
}

}  // namespace
}  // namespace stretto::comm
