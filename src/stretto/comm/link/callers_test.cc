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

// A link writes and reads once for each stream while somebody waits, and says that more is left.
TEST(Callers, MakeALinkBrief) {
  constexpr uint64_t kBytes = 1 << 20, kChunk = 64 << 10;
  const std::vector<std::byte> data(kBytes);
  for (const bool wait : {false, true}) {
    Wire wire;
    wire.room = 2 * kBytes;
    Events events;
    std::mutex mutex;
    Callers callers;
    Link link({.rank = 1, .chunk_bytes = kChunk, .batch_bytes = kChunk, .callers = &callers},
              &events);
    link.attach(0, 1, std::make_unique<ScriptPipe>(&wire));
    link.send({.key = {.sequence = 1}, .data = data.data(), .bytes = kBytes});
    const auto written = [&] { return 2 * static_cast<int64_t>(kBytes) - wire.room; };
    std::unique_lock lock(mutex);
    std::thread caller;
    if (wait) {
      caller = std::thread([&] { callers.lock(mutex); });
      while (!callers.wait()) std::this_thread::yield();
    }
    EXPECT_EQ(link.flush(), wait);
    EXPECT_EQ(written() > static_cast<int64_t>(kBytes), !wait);
    EXPECT_GE(written(), static_cast<int64_t>(kChunk));
    callers.let_in(lock);
    if (wait) caller.join();
    EXPECT_FALSE(link.flush()) << "nobody waits";
    EXPECT_GT(written(), static_cast<int64_t>(kBytes));
    EXPECT_FALSE(link.flush(true)) << "nothing is left";
  }
}

}  // namespace
}  // namespace stretto::comm
