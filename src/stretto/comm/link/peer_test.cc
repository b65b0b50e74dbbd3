// What one rank makes of frames that are fed to it by hand.
#include <gtest/gtest.h>

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
