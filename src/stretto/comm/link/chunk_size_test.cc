// How large the chunks are that a stream writes. The test says what a pipe takes.
#include <gtest/gtest.h>

#include <array>
#include <deque>

#include "stretto/comm/link/card_testing.h"
#include "stretto/comm/link/link.h"

namespace stretto::comm {
namespace {

constexpr uint64_t kChunk = 64 << 10;

struct ChunkSize : ::testing::Test {
  explicit ChunkSize(bool paced = false)
      : link({.rank = 1, .epoch = 7, .chunk_bytes = kChunk, .batch_bytes = kChunk, .paced = paced},
             &events) {
    for (Card& card : cards) card.takes_all = true;
  }

  void attach(int streams) {
    for (int i = 0; i < streams; ++i)
      link.attach(i, streams, std::make_unique<CardPipe>(&cards[i]));
    link.use_streams(streams);
  }
  void send(uint64_t bytes) {
    data.emplace_back(bytes);
    link.send({.key = {.sequence = ++sequence},
               .data = data.back().data(),
               .bytes = bytes,
               .ticket = {&data, 0}});
  }
  void write_all() {
    for (int i = 0; i < 1000 && !link.flushed(); ++i) link.flush();
    ASSERT_TRUE(link.flushed());
  }
  int64_t largest() const {
    int64_t most = 0;
    for (const Card& card : cards)
      for (const int64_t bytes : card.writes) most = std::max(most, bytes);
    return most;
  }

  std::array<Card, 2> cards;
  Events events;
  Link link;
  std::deque<std::vector<std::byte>> data;
  uint64_t sequence = 0;
};

constexpr int64_t kHeader = 1024;  // more than a frame's

TEST_F(ChunkSize, GrowsWhileTheNetworkTakesAll) {
  attach(1);
  send(64 * kChunk);
  write_all();
  EXPECT_GE(largest(), static_cast<int64_t>(4 * kChunk));
  EXPECT_LE(largest(), static_cast<int64_t>(4 * kChunk) + kHeader)
      << "urgent messages wait so long";
  EXPECT_LE(cards[0].writes.front(), static_cast<int64_t>(kChunk) + kHeader);
}

TEST_F(ChunkSize, SmallMessagesShareTheLargerWrites) {
  attach(1);
  send(64 * kChunk);
  write_all();
  cards[0].writes.clear();
  for (int i = 0; i < 8; ++i) send(kChunk / 2);
  write_all();
  EXPECT_EQ(cards[0].writes.size(), 1u);
}

TEST_F(ChunkSize, StaysWhereTheNetworkIsSlow) {
  attach(1);
  cards[0].takes_all = false;
  send(64 * kChunk);
  write_all();
  EXPECT_LE(largest(), static_cast<int64_t>(kChunk) + kHeader);
}

TEST_F(ChunkSize, FallsBackWhenAWriteFindsNoRoom) {
  attach(1);
  send(64 * kChunk);
  write_all();
  cards[0].room = kChunk;
  send(64 * kChunk);
  link.flush();
  ASSERT_FALSE(link.flushed());
  cards[0].room = int64_t{1} << 40;
  link.on_writable(0);
  link.flush();  // the rest of the chunk that was cut
  cards[0].writes.clear();
  link.flush();
  EXPECT_LE(cards[0].writes.front(), static_cast<int64_t>(kChunk) + kHeader);
}

TEST_F(ChunkSize, StaysWhereStreamsShareMessages) {
  attach(2);
  send(64 * kChunk);
  write_all();
  EXPECT_FALSE(cards[1].writes.empty());
  EXPECT_LE(largest(), static_cast<int64_t>(kChunk) + kHeader);
}

struct PacedChunkSize : ChunkSize {
  PacedChunkSize() : ChunkSize(true) {}
};

TEST_F(PacedChunkSize, StaysWhereChunksTakeTurns) {
  attach(1);
  send(16 * kChunk);
  for (int i = 0; i < 1000 && !link.flushed(); ++i) link.begin_paced_chunk();
  ASSERT_TRUE(link.flushed());
  EXPECT_LE(largest(), static_cast<int64_t>(kChunk) + kHeader);
}

}  // namespace
}  // namespace stretto::comm
