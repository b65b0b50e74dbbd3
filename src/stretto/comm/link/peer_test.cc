// What one rank makes of frames that are fed to it by hand.
#include <gtest/gtest.h>

#include "stretto/base/clock.h"
#include "stretto/comm/link/peer_script.h"

namespace stretto::comm {
namespace {

constexpr uint32_t kEpoch = 7, kLength = 1000;

std::string header_of(uint8_t attempt) {
  const FrameBytes bytes = encode_frame({.type = FrameType::kData,
                                         .attempt = attempt,
                                         .epoch = kEpoch,
                                         .length = kLength,
                                         .key = {.sequence = 1},
                                         .chunk = 1,
                                         .total = kLength});
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Whoever waits for the acknowledgement of a chunk gets it as soon as none below is missing, not
// with the next heartbeat.
TEST(Peer, AChunkThatOvertookOthersIsAcknowledgedWithTheLastOfThem) {
  Wire wires[kStreams];
  Events events;
  Peer peer({.rank = 1, .epoch = kEpoch}, &events);
  for (int s = 0; s < kStreams; ++s)
    peer.attach(s, kStreams, std::make_unique<ScriptPipe>(&wires[s]));
  const auto chunk = [](uint64_t number, uint8_t flags) {
    const FrameBytes bytes = encode_frame({.type = FrameType::kData,
                                           .flags = flags,
                                           .epoch = kEpoch,
                                           .length = kLength,
                                           .key = {.sequence = number},
                                           .chunk = number,
                                           .total = kLength});
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) +
           std::string(kLength, 'x');
  };
  const auto written = [&] { return 2 * Wire{}.room - wires[0].room - wires[1].room; };
  wires[1].sent = chunk(3, kAckSoon);
  peer.on_readable(1, false);
  wires[0].sent = chunk(1, 0);
  peer.on_readable(0, false);
  peer.flush();
  const int64_t before = written();
  wires[0].sent = chunk(2, 0);
  peer.on_readable(0, false);
  peer.flush();
  EXPECT_EQ(written() - before, static_cast<int64_t>(kFrameBytes));
  wires[0].sent = chunk(4, 0);
  peer.on_readable(0, false);
  peer.flush();
  EXPECT_EQ(written() - before, static_cast<int64_t>(kFrameBytes)) << "nobody waits for this one";
}

// Large messages begin a chunk when it is their turn; small ones, and what has begun, go on.
TEST(Peer, LargeMessagesTakeTurns) {
  constexpr uint64_t kChunk = 256 << 10;
  Wire wires[kStreams];
  for (Wire& wire : wires) wire.room = kChunk / 2;
  Events events;
  Peer peer({.rank = 1, .epoch = kEpoch, .takes_turns = true}, &events);
  for (int s = 0; s < kStreams; ++s)
    peer.attach(s, kStreams, std::make_unique<ScriptPipe>(&wires[s]));
  const auto written = [&] {
    return static_cast<int64_t>(kStreams * (kChunk / 2)) - wires[0].room - wires[1].room;
  };
  const std::vector<std::byte> large(3 * kChunk);
  peer.send({.key = {.sequence = 1}, .data = large.data(), .bytes = kLength});
  peer.send({.key = {.sequence = 2}, .data = large.data(), .bytes = large.size()});
  EXPECT_FALSE(peer.wants_turn()) << "a small one is before it, which needs none";
  peer.flush();
  EXPECT_EQ(written(), static_cast<int64_t>(kFrameBytes + kLength));
  EXPECT_TRUE(peer.wants_turn());
  EXPECT_EQ(peer.turns_since(0), 0);

  peer.give_turn();  // the first stream is full in the middle of the chunk
  EXPECT_EQ(wires[0].room, 0);
  EXPECT_EQ(wires[1].room, static_cast<int64_t>(kChunk / 2));
  EXPECT_EQ(peer.turns_since(0), 1);
  EXPECT_EQ(peer.turns_since(now_s()), 0) << "a turn grows old";
  EXPECT_TRUE(peer.wants_turn()) << "the second stream could carry the next chunk";
  peer.give_turn();
  EXPECT_EQ(wires[1].room, 0);
  EXPECT_EQ(peer.turns_since(0), 2);
  EXPECT_FALSE(peer.wants_turn()) << "no stream is free";

  wires[0].room = kChunk;
  peer.on_writable(0);
  peer.flush();
  EXPECT_EQ(peer.turns_since(0), 1) << "the first chunk is written, and no other begun";
  EXPECT_GT(wires[0].room, 0);
  EXPECT_TRUE(peer.wants_turn());
}

// A chunk begins on both streams; the one whose attempt is the later one stays and delivers.
void begin_twice(uint8_t first, uint8_t second) {
  SCOPED_TRACE(::testing::Message() << "attempt " << +first << ", then " << +second);
  Wire wires[kStreams];
  Events events;
  Peer peer({.rank = 1, .epoch = kEpoch}, &events);
  for (int s = 0; s < kStreams; ++s)
    peer.attach(s, kStreams, std::make_unique<ScriptPipe>(&wires[s]));
  std::string got(kLength, ' ');
  const Ticket ticket{&got, 0};
  peer.expect({.sequence = 1}, got.data(), kLength, 0, ticket);
  const uint8_t attempts[kStreams] = {first, second};
  for (int s = 0; s < kStreams; ++s) {
    wires[s].sent = header_of(attempts[s]) + std::string(kLength / 2, static_cast<char>('a' + s));
    peer.on_readable(s, false);
  }
  const int newer = static_cast<int8_t>(second - first) > 0 ? 1 : 0;
  EXPECT_TRUE(peer.streams()[newer].alive);
  EXPECT_FALSE(peer.streams()[1 - newer].alive);
  EXPECT_EQ(peer.streams()[1 - newer].reason, "given up by the other side");
  wires[newer].sent = std::string(kLength / 2, static_cast<char>('a' + newer));
  peer.on_readable(newer, false);
  ASSERT_EQ(events.done.size(), 1u);
  EXPECT_EQ(got, std::string(kLength, static_cast<char>('a' + newer)));
  EXPECT_TRUE(events.losses.empty());
}

TEST(Peer, TheStreamOfTheEarlierAttemptIsTheOneGivenUp) {
  begin_twice(0, 1);
  begin_twice(1, 0);
  begin_twice(255, 0);
  begin_twice(1, 254);
}

}  // namespace
}  // namespace stretto::comm
