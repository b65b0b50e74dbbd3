// How a link handles frames that are fed to it by hand.
#include <gtest/gtest.h>

#include "stretto/base/clock.h"
#include "stretto/comm/link/link_script.h"

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

// A chunk whose sender waits for the acknowledgement is acknowledged as soon as no lower number is
// missing, not with the next heartbeat.
TEST(Link, AChunkThatOvertookOthersIsAcknowledgedWithTheLastOfThem) {
  Wire wires[kStreams];
  Events events;
  Link link({.rank = 1, .epoch = kEpoch}, &events);
  for (int s = 0; s < kStreams; ++s)
    link.attach(s, kStreams, std::make_unique<ScriptPipe>(&wires[s]));
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
  link.on_readable(1, false);
  wires[0].sent = chunk(1, 0);
  link.on_readable(0, false);
  link.flush();
  const int64_t before = written();
  wires[0].sent = chunk(2, 0);
  link.on_readable(0, false);
  link.flush();
  EXPECT_EQ(written() - before, static_cast<int64_t>(kFrameBytes));
  wires[0].sent = chunk(4, 0);
  link.on_readable(0, false);
  link.flush();
  EXPECT_EQ(written() - before, static_cast<int64_t>(kFrameBytes)) << "its sender does not wait";
}

// So that what has arrived is read in between.
TEST(Link, WritesOnceToEachStreamAndSaysThatMoreIsLeft) {
  constexpr uint64_t kChunk = 64 << 10;
  constexpr int64_t kRoom = 16 * kChunk;
  Wire wires[kStreams];
  for (Wire& wire : wires) wire.room = kRoom;
  Events events;
  Link link({.rank = 1, .epoch = kEpoch, .chunk_bytes = kChunk, .batch_bytes = kChunk}, &events);
  for (int s = 0; s < kStreams; ++s)
    link.attach(s, kStreams, std::make_unique<ScriptPipe>(&wires[s]));
  const std::vector<std::byte> large(5 * kChunk);
  link.send({.key = {.sequence = 1}, .data = large.data(), .bytes = large.size()});
  const auto written = [&] {
    int64_t bytes = 0;
    for (const Wire& wire : wires) bytes += kRoom - wire.room;
    return bytes;
  };
  const auto chunks = [](int64_t count) {
    return count * static_cast<int64_t>(kChunk + kFrameBytes);
  };
  EXPECT_TRUE(link.flush());
  EXPECT_EQ(written(), chunks(kStreams));
  EXPECT_TRUE(link.waits());
  while (link.flush()) {
  }
  EXPECT_EQ(written(), chunks(5));
  EXPECT_FALSE(link.waits());
}

// Chunks of large messages begin only when they are paced; small messages, and chunks that have
// begun, go on.
TEST(Link, ChunksOfLargeMessagesArePaced) {
  constexpr uint64_t kChunk = 256 << 10;
  Wire wires[kStreams];
  for (Wire& wire : wires) wire.room = kChunk / 2;
  Events events;
  Link link({.rank = 1, .epoch = kEpoch, .paced = true}, &events);
  for (int s = 0; s < kStreams; ++s)
    link.attach(s, kStreams, std::make_unique<ScriptPipe>(&wires[s]));
  const auto written = [&] {
    return static_cast<int64_t>(kStreams * (kChunk / 2)) - wires[0].room - wires[1].room;
  };
  const std::vector<std::byte> large(3 * kChunk);
  link.send({.key = {.sequence = 1}, .data = large.data(), .bytes = kLength});
  link.send({.key = {.sequence = 2}, .data = large.data(), .bytes = large.size()});
  EXPECT_FALSE(link.awaits_pacing()) << "a small message is first, which is not paced";
  link.flush();
  EXPECT_EQ(written(), static_cast<int64_t>(kFrameBytes + kLength));
  EXPECT_TRUE(link.awaits_pacing());
  EXPECT_EQ(link.paced_chunks_since(0), 0);

  link.begin_paced_chunk();  // the first stream is full in the middle of the chunk
  EXPECT_EQ(wires[0].room, 0);
  EXPECT_EQ(wires[1].room, static_cast<int64_t>(kChunk / 2));
  EXPECT_EQ(link.paced_chunks_since(0), 1);
  EXPECT_EQ(link.paced_chunks_since(now_s()), 0) << "it began before now";
  EXPECT_TRUE(link.awaits_pacing()) << "the second stream could carry the next chunk";
  link.begin_paced_chunk();
  EXPECT_EQ(wires[1].room, 0);
  EXPECT_EQ(link.paced_chunks_since(0), 2);
  EXPECT_FALSE(link.awaits_pacing()) << "no stream is free";

  wires[0].room = kChunk;
  link.on_writable(0);
  link.flush();
  EXPECT_EQ(link.paced_chunks_since(0), 1) << "the first chunk is written, and no other begun";
  EXPECT_GT(wires[0].room, 0);
  EXPECT_TRUE(link.awaits_pacing());
}

// It once shared a field with the rank that an abort names.
TEST(Link, AMessageBringsItsNumberOfOperationsAhead) {
  Wire wire;
  Events events;
  Link link({.rank = 1, .epoch = kEpoch}, &events);
  link.attach(0, 1, std::make_unique<ScriptPipe>(&wire));
  const FrameBytes bytes = encode_frame({.type = FrameType::kData,
                                         .epoch = kEpoch,
                                         .key = {.sequence = 1},
                                         .chunk = 1,
                                         .origin = 3,
                                         .ahead = 5});
  wire.sent.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  int owner = 0;
  ASSERT_EQ(link.expect({.sequence = 1}, nullptr, 0, 0, {&owner, 0}), Expect::kPending);
  link.on_readable(0, false);
  ASSERT_EQ(events.done.size(), 1u);
  EXPECT_EQ(events.done[0].ahead, 5);
}

// A rank that has failed says why and leaves. The others often notice by writing to it, and must
// not lose its last words.
TEST(Link, WhatARankSaidBeforeItLeftIsReadWhenWritingFails) {
  Wire wire;
  Events events;
  Link link({.rank = 1, .epoch = kEpoch}, &events);
  link.attach(0, 1, std::make_unique<ScriptPipe>(&wire));
  const std::string why = "rank 3 is lost";
  const FrameBytes bytes = encode_frame({.type = FrameType::kAbort,
                                         .epoch = kEpoch,
                                         .length = static_cast<uint32_t>(why.size()),
                                         .origin = 3});
  wire.sent = std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + why;
  wire.broken = true;
  link.send({.key = {.sequence = 1}, .data = why.data(), .bytes = why.size()});
  link.flush();
  EXPECT_FALSE(link.alive());
  ASSERT_EQ(events.losses.size(), 1u);
  ASSERT_EQ(events.controls.size(), 1u);
  EXPECT_EQ(events.controls[0].text, why);
  EXPECT_EQ(events.controls[0].frame.origin, 3);
}

// A chunk begins on both streams; the one whose attempt is the later one stays and delivers.
void begin_twice(uint8_t first, uint8_t second) {
  SCOPED_TRACE(::testing::Message() << "attempt " << +first << ", then " << +second);
  Wire wires[kStreams];
  Events events;
  Link link({.rank = 1, .epoch = kEpoch}, &events);
  for (int s = 0; s < kStreams; ++s)
    link.attach(s, kStreams, std::make_unique<ScriptPipe>(&wires[s]));
  std::string got(kLength, ' ');
  const Ticket ticket{&got, 0};
  link.expect({.sequence = 1}, got.data(), kLength, 0, ticket);
  const uint8_t attempts[kStreams] = {first, second};
  for (int s = 0; s < kStreams; ++s) {
    wires[s].sent = header_of(attempts[s]) + std::string(kLength / 2, static_cast<char>('a' + s));
    link.on_readable(s, false);
  }
  const int newer = static_cast<int8_t>(second - first) > 0 ? 1 : 0;
  EXPECT_TRUE(link.streams()[newer].alive);
  EXPECT_FALSE(link.streams()[1 - newer].alive);
  EXPECT_EQ(link.streams()[1 - newer].reason, "closed by the remote rank");
  wires[newer].sent = std::string(kLength / 2, static_cast<char>('a' + newer));
  link.on_readable(newer, false);
  ASSERT_EQ(events.done.size(), 1u);
  EXPECT_EQ(got, std::string(kLength, static_cast<char>('a' + newer)));
  EXPECT_TRUE(events.losses.empty());
}

TEST(Link, TheStreamOfTheEarlierAttemptIsTheOneGivenUp) {
  begin_twice(0, 1);
  begin_twice(1, 0);
  begin_twice(255, 0);
  begin_twice(1, 254);
}

}  // namespace
}  // namespace stretto::comm
