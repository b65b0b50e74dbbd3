// Chunks that cover the same bytes of a message, which no honest rank sends. Memory of a message is
// freed as soon as the link says that it is done, so that the address sanitizer sees a late write.
#include <gtest/gtest.h>

#include "stretto/comm/link/link_script.h"

namespace stretto::comm {
namespace {

constexpr uint32_t kEpoch = 7, kTotal = 1000;
constexpr MessageKey kKey{.sequence = 1};

struct Overlap : ::testing::Test {
  Overlap() {
    for (int s = 0; s < kStreams; ++s)
      link.attach(s, kStreams, std::make_unique<ScriptPipe>(&wires[s]));
  }

  Expect ask() { return link.expect(kKey, memory->data(), kTotal, 0, {&owner, 0}); }

  void receive(int stream, const std::string& bytes) {
    wires[stream].sent += bytes;
    link.on_readable(stream, false);
    done += events.done.size();
    events.done.clear();
    if (done > 0 && memory) got = *std::exchange(memory, nullptr);
  }

  // The header of a chunk of the message.
  static std::string header(uint64_t chunk, uint64_t offset, uint32_t length, uint8_t attempt = 0) {
    const FrameBytes bytes = encode_frame({.type = FrameType::kData,
                                           .attempt = attempt,
                                           .epoch = kEpoch,
                                           .length = length,
                                           .key = kKey,
                                           .chunk = chunk,
                                           .offset = offset,
                                           .total = kTotal});
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  void expect_closed(int stream) {
    EXPECT_FALSE(link.streams()[stream].alive);
    EXPECT_NE(link.streams()[stream].reason.find("of a message twice"), std::string::npos)
        << link.streams()[stream].reason;
    EXPECT_TRUE(link.streams()[1 - stream].alive);
  }

  Wire wires[kStreams];
  Events events;
  Link link{{.rank = 1, .epoch = kEpoch}, &events};
  int owner = 0;
  size_t done = 0;
  std::unique_ptr<std::string> memory = std::make_unique<std::string>(kTotal, ' ');
  std::string got;
};

TEST_F(Overlap, AMessageIsNotDoneWhileAStreamWritesIntoIt) {
  ask();
  receive(0, header(1, 0, kTotal) + std::string(kTotal / 2, 'a'));
  receive(1, header(2, 0, kTotal) + std::string(kTotal, 'b'));
  EXPECT_EQ(done, 0u) << "stream 0 still writes into it";
  expect_closed(1);
  receive(0, std::string(kTotal / 2, 'a'));
  EXPECT_EQ(done, 1u);
  EXPECT_EQ(got, std::string(kTotal, 'a'));
}

TEST_F(Overlap, AMessageThatNobodyAskedForIsNotDoneWhileAStreamWritesIntoIt) {
  receive(0, header(1, 0, kTotal) + std::string(kTotal / 2, 'a'));
  receive(1, header(2, 0, kTotal) + std::string(kTotal, 'b'));
  EXPECT_EQ(ask(), Expect::kPending) << "stream 0 still writes into it";
  expect_closed(1);
  receive(0, std::string(kTotal / 2, 'a'));
  EXPECT_EQ(done, 1u);
  EXPECT_EQ(got, std::string(kTotal, 'a'));
}

TEST_F(Overlap, BytesThatHaveArrivedDoNotCountTwice) {
  ask();
  receive(0, header(1, 0, 600) + std::string(600, 'a'));
  receive(1, header(2, 500, 400) + std::string(400, 'b'));
  EXPECT_EQ(done, 0u) << "the last 100 bytes are missing";
  expect_closed(1);
  receive(0, header(3, 600, 400) + std::string(400, 'c'));
  EXPECT_EQ(done, 1u);
  EXPECT_EQ(got, std::string(600, 'a') + std::string(400, 'c'));
}

TEST_F(Overlap, BytesThatNobodyAskedForDoNotCountTwice) {
  receive(0, header(1, 0, 600) + std::string(600, 'a'));
  receive(1, header(2, 200, 400) + std::string(400, 'b'));
  expect_closed(1);
  EXPECT_EQ(ask(), Expect::kPending) << "the last 400 bytes are missing";
  receive(0, header(3, 600, 400) + std::string(400, 'c'));
  EXPECT_EQ(done, 1u);
  EXPECT_EQ(got, std::string(600, 'a') + std::string(400, 'c'));
}

// The stream of the first attempt broke before this rank noticed, or after: the bytes are free.
TEST_F(Overlap, AChunkThatIsSentAgainIsNoOverlap) {
  ask();
  receive(0, header(1, 0, 600) + std::string(300, 'a'));
  receive(1, header(1, 0, 600, 1) + std::string(300, 'b'));
  EXPECT_FALSE(link.streams()[0].alive);
  receive(1, std::string(300, 'b') + header(2, 600, 400) + std::string(400, 'c'));
  EXPECT_EQ(done, 1u);
  EXPECT_EQ(got, std::string(600, 'b') + std::string(400, 'c'));
}

TEST_F(Overlap, AskingInTheMiddleOfAChunkTakesAllOfIt) {
  receive(0, header(1, 0, 600) + std::string(300, 'a'));
  EXPECT_EQ(ask(), Expect::kPending);
  receive(1, header(2, 600, 400) + std::string(400, 'b'));
  EXPECT_EQ(done, 0u);
  receive(0, std::string(300, 'c'));
  EXPECT_EQ(done, 1u);
  EXPECT_EQ(got, std::string(300, 'a') + std::string(300, 'c') + std::string(400, 'b'));
}

TEST_F(Overlap, ForgettingInTheMiddleOfAChunkEndsTheWriting) {
  ask();
  receive(0, header(1, 0, 600) + std::string(300, 'a'));
  receive(1, header(2, 600, 400) + std::string(100, 'b'));
  link.forget_messages();
  memory.reset();
  receive(0, std::string(300, 'a') + header(3, 0, 10) + std::string(10, 'x'));
  receive(1, std::string(300, 'b'));
  const FrameBytes bye = encode_frame({.type = FrameType::kBye, .epoch = kEpoch});
  receive(0, {reinterpret_cast<const char*>(bye.data()), bye.size()});
  EXPECT_TRUE(link.departed);
  EXPECT_EQ(done, 0u);
}

}  // namespace
}  // namespace stretto::comm
