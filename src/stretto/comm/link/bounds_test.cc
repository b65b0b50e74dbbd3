// A remote rank makes this one keep so much and no more, also without sending a byte of data.
#include <gtest/gtest.h>

#include "stretto/comm/link/link_script.h"
#include "stretto/comm/link/link_state.h"

namespace stretto::comm {
namespace {

constexpr uint32_t kEpoch = 7;

struct Bounds : ::testing::Test {
  Bounds() {
    for (int s = 0; s < kStreams; ++s)
      link.attach(s, kStreams, std::make_unique<ScriptPipe>(&wires[s]));
  }

  // An empty message, and an announced one.
  static std::string empty(uint64_t chunk, uint64_t sequence) { return frame(chunk, sequence, 0); }
  static std::string rts(uint64_t chunk, uint64_t sequence) { return frame(chunk, sequence, kRts); }

  static std::string frame(uint64_t chunk, uint64_t sequence, uint8_t flags) {
    const FrameBytes bytes = encode_frame({.type = FrameType::kData,
                                           .flags = flags,
                                           .epoch = kEpoch,
                                           .key = {.sequence = sequence},
                                           .chunk = chunk,
                                           .total = flags ? 100u : 0u});
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  void receive(const std::string& bytes, int stream = 0) {
    wires[stream].sent += bytes;
    link.on_readable(stream, false);
    arrivals += events.arrivals.size();
    events.arrivals.clear();
  }

  // Messages of numbers from 1 to `count`, some in one frame's place after another.
  void fill(int64_t count, std::string (*message)(uint64_t, uint64_t)) {
    std::string bytes;
    for (int64_t i = 1; i <= count; ++i) {
      bytes += message(static_cast<uint64_t>(i), static_cast<uint64_t>(i));
      if (i % 1024 != 0 && i != count) continue;
      receive(std::exchange(bytes, {}));
    }
  }

  void expect_refused(const std::string& what, int stream = 0) {
    EXPECT_FALSE(link.streams()[stream].alive);
    EXPECT_NE(link.streams()[stream].reason.find(what), std::string::npos)
        << link.streams()[stream].reason;
  }

  Wire wires[kStreams];
  Events events;
  Link link{{.rank = 1, .epoch = kEpoch}, &events};
  size_t arrivals = 0;
};

TEST_F(Bounds, EmptyMessagesThatNobodyAskedFor) {
  fill(kMostUnasked, empty);
  EXPECT_EQ(arrivals, static_cast<size_t>(kMostUnasked));
  ASSERT_TRUE(link.streams()[0].alive);
  int owner = 0;  // takes one of them, which makes room for another
  EXPECT_EQ(link.expect({.sequence = 5}, nullptr, 0, 0, {&owner, 0}), Expect::kComplete);
  receive(empty(kMostUnasked + 1, kMostUnasked + 1));
  EXPECT_TRUE(link.streams()[0].alive);
  receive(empty(kMostUnasked + 2, kMostUnasked + 2));
  expect_refused("more messages");
}

TEST_F(Bounds, AnnouncementsThatNobodyAskedFor) {
  fill(kMostUnasked, rts);
  EXPECT_TRUE(link.drop(MessageKey{.sequence = 9}));
  receive(rts(kMostUnasked + 1, kMostUnasked + 1));
  EXPECT_TRUE(link.streams()[0].alive);
  receive(rts(kMostUnasked + 2, kMostUnasked + 2));
  expect_refused("more messages");
}

TEST_F(Bounds, NumbersOfChunksThatAreFarAhead) {
  receive(empty(kMostAhead, 1));
  EXPECT_TRUE(link.streams()[0].alive);
  receive(empty(kMostAhead + 1, 2));
  expect_refused("far ahead");
  receive(empty(1, 3), 1);
  receive(empty(kMostAhead + 1, 4), 1);
  EXPECT_TRUE(link.streams()[1].alive);
}

}  // namespace
}  // namespace stretto::comm
