// What a mock card does wrong, what comes from the other side that should not, and how it all ends.
#include <cstring>
#include <functional>

#include "stretto/comm/link/rdma_testing.h"

namespace stretto::comm {
namespace {

using testing::Ends;
using testing::Fabric;
using testing::kMessageBytes;
using testing::random_bytes;
using testing::read_some;
using testing::readable;
using testing::some_proof;
using testing::write_all;

TEST(Rdma, AnErrorNamesCardPortAndStatus) {
  for (uint32_t status : {verbs::kRetriesExceeded, verbs::kGeneralError,
                          verbs::kLocalProtectionError, verbs::kRnrRetriesExceeded}) {
    for (unsigned seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(fmt::format("status {}, seed {}", status, seed));
      Fabric fabric(Fabric::Pace::kByHand, seed);
      Ends ends(fabric);
      std::vector<char> got;
      fabric.fail_next("mock0", status);
      EXPECT_GT(write_all(ends.a(), random_bytes(200'000, 1)), 0);
      int64_t outcome;
      while ((outcome = read_some(ends.a(), &got)) == kWouldBlock) ASSERT_TRUE(fabric.step());
      EXPECT_EQ(outcome, kBroken);
      // Whatever was flushed with it: the cause is told.
      EXPECT_TRUE(ends.a().reason().starts_with("mock0 port 1: send: ")) << ends.a().reason();
      EXPECT_NE(ends.a().reason().find(fmt::format("(status {})", status)), std::string::npos)
          << ends.a().reason();
      EXPECT_EQ(write_all(ends.a(), {'x'}), kBroken);
      EXPECT_EQ(read_some(ends.b(), &got), kWouldBlock) << "a queue pair says nothing";
      ends.pipes[0].reset();
      EXPECT_EQ(read_some(ends.b(), &got), kBroken) << "but the socket does";
      EXPECT_EQ(ends.b().reason(), "mock1 port 1: closed by the remote rank");
    }
  }
}

TEST(Rdma, AnErrorWakesASleeper) {
  Fabric fabric;
  Ends ends(fabric);
  EXPECT_FALSE(ends.a().prepare_to_sleep());
  fabric.kill("mock1");
  EXPECT_EQ(write_all(ends.a(), {'x'}), 1);
  EXPECT_TRUE(readable(ends.a()));
  EXPECT_TRUE(ends.a().prepare_to_sleep());
  std::vector<char> got;
  EXPECT_EQ(read_some(ends.a(), &got), kBroken);
}

TEST(Rdma, WhatCameBeforeTheEndIsDelivered) {
  Fabric fabric;
  Ends ends(fabric);
  const std::vector<char> sent = random_bytes(100'000, 3);
  EXPECT_EQ(write_all(ends.a(), sent), 100'000);
  ends.pipes[0].reset();
  std::vector<char> got;
  while (read_some(ends.b(), &got) > 0) {
  }
  EXPECT_EQ(got, sent);
  EXPECT_EQ(ends.b().reason(), "mock1 port 1: closed by the remote rank");
}

void put(std::vector<std::byte>& message, size_t word, uint32_t value) {
  std::memcpy(message.data() + 4 * word, &value, sizeof value);
}

// Words of the header: magic, bytes, credits, number.
TEST(Rdma, GarbageIsRefused) {
  using Message = std::vector<std::byte>;
  const struct {
    const char* what;
    std::function<void(Message&)> alter;
    const char* reason;
  } kCases[] = {
      {"too long", [](Message& m) { put(m, 1, 70'000); }, "its header says 70000"},
      {"longer than what came", [](Message& m) { put(m, 1, 101); }, "its header says 101"},
      {"shorter than what came", [](Message& m) { put(m, 1, 99); }, "its header says 99"},
      {"length of 2^32 - 1", [](Message& m) { put(m, 1, ~0u); }, "its header says 4294967295"},
      {"no message", [](Message& m) { put(m, 0, 0); }, "a damaged message"},
      {"no header", [](Message& m) { m.resize(15); }, "a message of 15 bytes"},
      {"nothing", [](Message& m) { m.clear(); }, "a message of 0 bytes"},
      {"no use", [](Message& m) { m.resize(16), put(m, 1, 0); }, "a damaged message"},
      {"a credit too many", [](Message& m) { put(m, 2, 1); }, "1 credits came for 0 messages"},
      {"credits of 2^32 - 1", [](Message& m) { put(m, 2, ~0u); }, "credits came for 0 messages"},
      {"another's turn", [](Message& m) { put(m, 3, 1); }, "message 1 came instead of 0"},
      {"more than a slot", [](Message& m) { m.resize(kSlotBytes + 1); }, "(status 1)"},
      {"noise",
       [](Message& m) {
         std::mt19937 random(5);
         for (std::byte& byte : m) byte = static_cast<std::byte>(random());
       },
       "a damaged message"},
  };
  for (const auto& [what, alter, reason] : kCases) {
    SCOPED_TRACE(what);
    Fabric fabric;
    Ends ends(fabric);
    fabric.set_alter(alter);
    write_all(ends.a(), random_bytes(100, 1));
    std::vector<char> got;
    EXPECT_EQ(read_some(ends.b(), &got), kBroken);
    EXPECT_TRUE(got.empty());
    EXPECT_TRUE(ends.b().reason().starts_with("mock1 port 1: ")) << ends.b().reason();
    EXPECT_NE(ends.b().reason().find(reason), std::string::npos) << ends.b().reason();
  }
}

TEST(Rdma, ShortQueuesMakeFewerSlotsAndTooShortOnesNone) {
  for (uint32_t most : {31u, 8u, 4u, 3u, 0u}) {
    SCOPED_TRACE(most);
    Fabric fabric;
    Ends ends(fabric, {.name = "mock0", .most = most}, {.name = "mock1", .most = most});
    if (most < kFewestSlots) {
      EXPECT_EQ(ends.outcome, kBroken);
      EXPECT_TRUE(ends.a().reason().starts_with("mock0 port 1: no queue pair: "))
          << ends.a().reason();
      continue;
    }
    EXPECT_EQ(ends.outcome, kWouldBlock);
    const int64_t slots = most == 31 ? 16 : most;
    EXPECT_EQ(write_all(ends.a(), random_bytes(3'000'000, 1)), (slots - 1) * kMessageBytes);
  }
}

TEST(Rdma, MemoryThatCannotBeRegisteredIsNamedWithTheFix) {
  Fabric fabric;
  Ends ends(fabric, {.name = "mock0", .registers = false});
  EXPECT_EQ(ends.outcome, kBroken);
  EXPECT_NE(ends.a().reason().find("ulimit -l"), std::string::npos) << ends.a().reason();
  ends.pipes[0].reset();
  std::vector<char> got;
  EXPECT_EQ(read_some(ends.b(), &got), kBroken);
  EXPECT_NE(ends.b().reason().find("before it was connected"), std::string::npos)
      << ends.b().reason();
  ends.pipes[1].reset();
  EXPECT_EQ(fabric.objects(), 0);
}

TEST(Rdma, AnEndpointWithoutTheSecretOrOfAnotherHandshakeIsRefused) {
  Proof other = some_proof();
  other.secret = "guessed";
  const Proof replayed = some_proof();  // another nonce
  for (const Proof& wrong : {other, replayed}) {
    Fabric fabric;
    Ends ends(fabric, {.name = "mock0"}, {.name = "mock1"}, &wrong);
    EXPECT_EQ(ends.outcome, kBroken);
    EXPECT_EQ(ends.a().reason(), "mock0 port 1: the remote rank's endpoint is not authentic");
    EXPECT_EQ(ends.b().reason(), "mock1 port 1: the remote rank's endpoint is not authentic");
  }
}

TEST(Rdma, PortsOfDifferentKindsDoNotConnect) {
  Fabric fabric;
  Ends ends(fabric, {.name = "mock0"}, {.name = "mock1", .ethernet = false});
  EXPECT_EQ(ends.outcome, kBroken);
  EXPECT_NE(ends.a().reason().find("of another kind"), std::string::npos) << ends.a().reason();
  Ends infiniband(fabric, {.name = "mock2", .ethernet = false},
                  {.name = "mock3", .ethernet = false});
  EXPECT_EQ(infiniband.outcome, kWouldBlock) << infiniband.a().reason();
  EXPECT_EQ(write_all(infiniband.a(), {'x'}), 1);
  std::vector<char> got;
  EXPECT_EQ(read_some(infiniband.b(), &got), 1);
}

TEST(Rdma, NothingIsLeftWhenItEndsAmidRequests) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Fabric fabric(Fabric::Pace::kByHand, seed);
    {
      Ends ends(fabric);
      ends.a().prepare_to_sleep();
      ends.b().prepare_to_sleep();
      const std::vector<char> much = random_bytes(2'000'000, seed);
      EXPECT_GT(write_all(ends.a(), much), 0);
      EXPECT_GT(write_all(ends.b(), much), 0);
      for (unsigned i = 0; i < 5 * seed; ++i) fabric.step();
      std::vector<char> got;
      if (seed % 2) read_some(ends.b(), &got);
      ends.pipes[seed % 2].reset();
      for (unsigned i = 0; i < 20; ++i) fabric.step();
    }
    while (fabric.step()) {
    }
    EXPECT_EQ(fabric.objects(), 0);
    EXPECT_EQ(fabric.faults(), std::vector<std::string>{});
  }
}

}  // namespace
}  // namespace stretto::comm
