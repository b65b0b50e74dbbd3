#include "stretto/comm/link/callers.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "stretto/comm/link/link_script.h"

namespace stretto::comm {
namespace {

// A holder that only unlocks and locks again has the lock before the caller has woken up.
TEST(Callers, HaveTheLockBeforeItsHolderGoesOn) {
  constexpr int kTurns = 100;
  std::mutex mutex;
  Callers callers;
  int had = 0;
  Callers::Lock lock(mutex);
  std::thread caller([&] {
    for (int turn = 0; turn < kTurns; ++turn) {
      const Callers::Lock held = callers.lock(mutex);
      ++had;
    }
  });
  // Turns that find the lock free need nobody to let them in.
  while (had < kTurns) {
    const int before = had;
    while (!callers.wait()) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
      if (had == kTurns) break;
    }
    if (had == kTurns) break;
    callers.let_in(lock);
    EXPECT_GT(had, before);
  }
  lock.unlock();
  caller.join();
  EXPECT_FALSE(callers.wait());
  lock.lock();
  callers.let_in(lock);  // there is nobody to wait for
  EXPECT_TRUE(lock.owns_lock());
}

// While somebody waits, a stream that has more to read stays ready for the next round.
TEST(Callers, MakeALinkReadOnce) {
  constexpr uint32_t kEpoch = 7, kLength = 1000, kMessages = 200;  // three buffers full
  std::string sent;
  for (uint32_t number = 1; number <= kMessages; ++number) {
    const FrameBytes bytes = encode_frame({.type = FrameType::kData,
                                           .epoch = kEpoch,
                                           .length = kLength,
                                           .key = {.sequence = number},
                                           .chunk = number,
                                           .total = kLength});
    sent.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    sent.append(kLength, 'x');
  }
  for (const bool wait : {false, true}) {
    Wire wire;
    wire.sent = sent;
    Events events;
    std::mutex mutex;
    Callers callers;
    Link link({.rank = 1, .epoch = kEpoch, .callers = &callers}, &events);
    link.attach(0, 1, std::make_unique<ScriptPipe>(&wire));
    std::unique_lock lock(mutex);
    std::thread caller;
    if (wait) {
      caller = std::thread([&] { callers.lock(mutex); });
      while (!callers.wait()) std::this_thread::yield();
    }
    link.on_readable(0, false);
    EXPECT_EQ(events.arrivals.size() == kMessages, !wait);
    EXPECT_GT(events.arrivals.size(), 0u);
    EXPECT_EQ(link.look(true), wait);
    callers.let_in(lock);
    if (wait) caller.join();
    link.run_ready();
    EXPECT_EQ(events.arrivals.size(), kMessages);
  }
}

}  // namespace
}  // namespace stretto::comm
