// How large the chunks are that a stream writes. The test says what a pipe takes.
#include <gtest/gtest.h>

#include <deque>

#include "stretto/comm/link/link.h"

namespace stretto::comm {
namespace {

constexpr uint64_t kChunk = 64 << 10;

struct Wire {
  bool takes_all = true;
  int64_t room = int64_t{1} << 40;
  std::vector<int64_t> writes;
};

class WirePipe : public Pipe {
 public:
  explicit WirePipe(Wire* wire) : wire_(wire) {}
  int64_t write(std::span<const iovec> parts) override {
    int64_t bytes = 0;
    for (const iovec& part : parts) bytes += static_cast<int64_t>(part.iov_len);
    bytes = std::min(bytes, wire_->room);
    wire_->room -= bytes;
    if (bytes > 0) wire_->writes.push_back(bytes);
    return bytes;
  }
  int64_t read(std::span<const iovec>) override { return kWouldBlock; }
  bool network_took_all() const override { return wire_->takes_all; }
  std::vector<int> descriptors() const override { return {}; }
  bool prepare_to_sleep() override { return false; }
  const std::string& name() const override { return name_; }
  const std::string& reason() const override { return name_; }

 private:
  Wire* const wire_;
  const std::string name_ = "wire";
};

struct ChunkSize : ::testing::Test {
  explicit ChunkSize(bool paced = false)
      : link({.rank = 1, .epoch = 7, .chunk_bytes = kChunk, .batch_bytes = kChunk, .paced = paced},
             &events) {}

  void attach(int streams) {
    for (int i = 0; i < streams; ++i)
      link.attach(i, streams, std::make_unique<WirePipe>(&wires[i]));
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
    for (const Wire& wire : wires)
      for (const int64_t bytes : wire.writes) most = std::max(most, bytes);
    return most;
  }

  std::array<Wire, 2> wires;
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
  EXPECT_LE(wires[0].writes.front(), static_cast<int64_t>(kChunk) + kHeader);
}

TEST_F(ChunkSize, SmallMessagesShareTheLargerWrites) {
  attach(1);
  send(64 * kChunk);
  write_all();
  wires[0].writes.clear();
  for (int i = 0; i < 8; ++i) send(kChunk / 2);
  write_all();
  EXPECT_EQ(wires[0].writes.size(), 1u);
}

TEST_F(ChunkSize, StaysWhereTheNetworkIsSlow) {
  attach(1);
  wires[0].takes_all = false;
  send(64 * kChunk);
  write_all();
  EXPECT_LE(largest(), static_cast<int64_t>(kChunk) + kHeader);
}

TEST_F(ChunkSize, FallsBackWhenAWriteFindsNoRoom) {
  attach(1);
  send(64 * kChunk);
  write_all();
  wires[0].room = kChunk;
  send(64 * kChunk);
  link.flush();
  ASSERT_FALSE(link.flushed());
  wires[0].room = int64_t{1} << 40;
  link.on_writable(0);
  link.flush();  // the rest of the chunk that was cut
  wires[0].writes.clear();
  link.flush();
  EXPECT_LE(wires[0].writes.front(), static_cast<int64_t>(kChunk) + kHeader);
}

TEST_F(ChunkSize, StaysWhereStreamsShareMessages) {
  attach(2);
  send(64 * kChunk);
  write_all();
  EXPECT_FALSE(wires[1].writes.empty());
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
