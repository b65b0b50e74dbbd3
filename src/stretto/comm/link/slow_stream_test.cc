// What a slow stream leaves to a fast one. The test says what a pipe still holds, and both streams
// are looked at at the same time, so that their rates differ by a known factor.
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <thread>

#include "stretto/comm/link/card_testing.h"
#include "stretto/comm/link/link.h"

namespace stretto::comm {
namespace {

constexpr uint64_t kChunk = 64 << 10;

struct SlowStream : ::testing::Test {
  SlowStream() {
    link.attach(0, 2, std::make_unique<CardPipe>(&slow));
    link.attach(1, 2, std::make_unique<CardPipe>(&fast));
    // The slow card moves a quarter of a chunk per window of time, the fast one many.
    send(64);
    for (int window = 0; window < 6; ++window) {
      slow.room = fast.room = 0;
      wait_ms(6);
      slow.held -= std::min<int64_t>(slow.held, kChunk / 4);
      fast.held = 1;
      slow.room = fast.room = 4 * kChunk;
      link.on_writable(0);
      link.on_writable(1);
      link.flush();
    }
    slow.room = fast.room = int64_t{1} << 40;
    link.on_writable(0);
    link.on_writable(1);
    while (!link.flushed()) {
      slow.held = fast.held = 0;
      link.flush();
    }
    slow.held = fast.held = 0;
  }

  void send(int chunks, int following = 0) {
    data.emplace_back(chunks * kChunk);
    link.send({.key = {.sequence = ++sequence},
               .data = data.back().data(),
               .bytes = data.back().size(),
               .ticket = {&data, 0},
               .following_bytes = following * uint64_t{kChunk}});
  }
  static void wait_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
  static int64_t since(const Card& card, int64_t before) { return card.written - before; }

  Card slow, fast;
  Events events;
  Link link{{.rank = 1, .epoch = 7, .chunk_bytes = kChunk, .batch_bytes = kChunk}, &events};
  std::deque<std::vector<std::byte>> data;
  uint64_t sequence = 0;
};

TEST_F(SlowStream, LeavesTheLastChunksToTheFastOne) {
  const int64_t slow_before = slow.written;
  send(2);
  for (int i = 0; i < 10 && !link.flushed(); ++i) link.flush();
  EXPECT_TRUE(link.flushed());
  EXPECT_LT(since(slow, slow_before), static_cast<int64_t>(kChunk)) << "of the slow card";
}

TEST_F(SlowStream, TakesItsShareOfAMessageThatIsLong) {
  const int64_t slow_before = slow.written;
  send(200);
  link.flush();
  EXPECT_GE(since(slow, slow_before), static_cast<int64_t>(kChunk));
}

// The engine queues the units of an operation one after the other.
TEST_F(SlowStream, TakesItsShareWhereMuchFollows) {
  const int64_t slow_before = slow.written;
  send(2, 200);
  link.flush();
  EXPECT_GE(since(slow, slow_before), static_cast<int64_t>(kChunk));
}

TEST_F(SlowStream, TakesThemWhenTheFastOneStandsStill) {
  fast.room = 0;
  const int64_t slow_before = slow.written;
  send(1);
  link.flush();
  EXPECT_FALSE(link.leaves_chunks()) << "the fast stream has begun to write it";
  send(1);
  link.flush();
  EXPECT_TRUE(link.leaves_chunks());
  EXPECT_TRUE(link.waits()) << "flush() is called again";
  EXPECT_EQ(since(slow, slow_before), 0);
  wait_ms(60);
  link.flush();
  EXPECT_FALSE(link.leaves_chunks());
  EXPECT_GE(since(slow, slow_before), static_cast<int64_t>(kChunk));
}

}  // namespace
}  // namespace stretto::comm
