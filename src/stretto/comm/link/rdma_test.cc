// Everything here runs against mock cards (verbs_testing.h): the state machine is tested, no card.
#include "stretto/comm/link/rdma.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "stretto/base/error.h"
#include "stretto/comm/link/rdma_queues.h"
#include "stretto/comm/link/verbs_testing.h"

namespace stretto::comm {
namespace {

using testing::Fabric;
using testing::MockCard;

constexpr int kHang_ms = 60'000;  // sleeping so long means that a wake-up was lost
constexpr int64_t kMessageBytes = kSlotBytes - 16;  // payload of a message, beside its header

std::shared_ptr<RdmaPort> open_one(Fabric& fabric, const MockCard& card) {
  Options options;
  options.rdma = "auto";
  options.rdma_provider = fabric.machine({card});
  std::string reason;
  const auto ports = open_rdma_ports(options, &reason);
  EXPECT_EQ(ports.size(), 1u) << reason;
  return ports.at(0);
}

Proof some_proof() {
  return {.secret = "secret", .hello = encode_hello({.from = 1}), .nonce = random_nonce()};
}

// Both ends of a rail between two cards.
struct Ends {
  explicit Ends(Fabric& fabric, const MockCard& first = {.name = "mock0"},
                const MockCard& second = {.name = "mock1"}, const Proof* other_proof = nullptr) {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
    const Proof proof = some_proof();
    pipes[0] = rdma_pipe(open_one(fabric, first), Fd(sockets[0]), proof, Role::kConnector, "b");
    pipes[1] = rdma_pipe(open_one(fabric, second), Fd(sockets[1]),
                         other_proof ? *other_proof : proof, Role::kAcceptor, "a");
    for (int i = 0; i < 3; ++i) {
      for (auto& pipe : pipes) outcome = std::min(outcome, pipe->read({}));
    }
  }
  Pipe& a() { return *pipes[0]; }
  Pipe& b() { return *pipes[1]; }
  std::unique_ptr<Pipe> pipes[2];
  int64_t outcome = kWouldBlock;  // kBroken when an end broke while they connected
};

std::vector<char> random_bytes(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<char> bytes(count);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

int64_t write_all(Pipe& pipe, const std::vector<char>& bytes) {
  const iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  return pipe.write({&part, 1});
}

int64_t read_some(Pipe& pipe, std::vector<char>* into) {
  char bytes[70'000];
  const iovec part{bytes, sizeof bytes};
  const int64_t got = pipe.read({&part, 1});
  if (got > 0) into->insert(into->end(), bytes, bytes + got);
  return got;
}

bool readable(const Pipe& pipe) {
  pollfd polled{.fd = pipe.descriptors()[0], .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, 0) == 1;
}

// One end as Links drive it: writes and reads while it can, and sleeps on the descriptors alone.
struct Driver {
  explicit Driver(Pipe& pipe) : pipe(pipe), epoll(epoll_create1(EPOLL_CLOEXEC)) {
    for (int fd : pipe.descriptors()) {
      epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.fd = fd}};
      EXPECT_EQ(epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event), 0);
    }
  }

  // Until `to_send` has been written and `expected` bytes have come. False: it hung or broke.
  bool exchange(std::span<const char> to_send, size_t expected, unsigned seed) {
    std::mt19937 random(seed);
    bool full = false;
    while (!to_send.empty() || received.size() < expected) {
      bool progress = false;
      if (!to_send.empty() && !full) {
        // Up to three pieces of any length, as headers and payloads are.
        std::vector<iovec> parts;
        for (size_t at = 0; at < to_send.size() && parts.size() < 3;) {
          const size_t step = std::min<size_t>(1 + random() % 100'000, to_send.size() - at);
          parts.push_back({const_cast<char*>(to_send.data()) + at, step});
          at += step;
        }
        const int64_t wrote = pipe.write(parts);
        if (wrote == kBroken) return false;
        to_send = to_send.subspan(static_cast<size_t>(wrote));
        full = wrote == 0;
        progress |= wrote > 0;
      }
      const int64_t got = read_some(pipe, &received);
      if (got == kBroken) return false;
      progress |= got > 0;
      if (full && pipe.regained_room()) full = false, progress = true;
      if (progress || pipe.prepare_to_sleep()) continue;
      if (full && pipe.regained_room()) {
        full = false;
        continue;
      }
      epoll_event event;
      if (epoll_wait(epoll.get(), &event, 1, kHang_ms) == 0) return false;
    }
    return true;
  }

  Pipe& pipe;
  Fd epoll;
  std::vector<char> received;
};

TEST(Rdma, BytesCrossInBothDirectionsWithoutALostWakeUp) {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Fabric fabric(Fabric::Pace::kThread, seed);
    Ends ends(fabric, {.name = "mock0", .most = seed % 2 ? 8u : 4096u});
    std::vector<char> sent[2], received[2];
    for (unsigned i = 0; i < 2; ++i) sent[i] = random_bytes(12'000'000 + i, 2 * seed + i);
    std::thread threads[2];
    for (int i = 0; i < 2; ++i) {
      threads[i] = std::thread([&, i] {
        Driver driver(*ends.pipes[i]);
        EXPECT_TRUE(driver.exchange(sent[i], sent[1 - i].size(), seed)) << driver.pipe.reason();
        received[i] = std::move(driver.received);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(received[0] == sent[1]);
    EXPECT_TRUE(received[1] == sent[0]);
    EXPECT_EQ(fabric.rnr(), 0);
    EXPECT_EQ(fabric.faults(), std::vector<std::string>{});
    if (HasFailure()) break;
  }
}

TEST(Rdma, SmallMessagesComeAndGoWithoutALostWakeUp) {
  Fabric fabric(Fabric::Pace::kThread, 7);
  Ends ends(fabric);
  constexpr int kRounds = 4000;
  std::thread other([&] {
    Driver driver(ends.b());
    const char answer = 'b';
    for (int i = 1; i <= kRounds; ++i) {
      ASSERT_TRUE(driver.exchange({}, i, 0)) << i << ' ' << driver.pipe.reason();
      ASSERT_TRUE(driver.exchange({&answer, 1}, 0, 0)) << i;
    }
  });
  Driver driver(ends.a());
  const char question = 'a';
  for (int i = 1; i <= kRounds; ++i) {
    EXPECT_TRUE(driver.exchange({&question, 1}, i, 0)) << i << ' ' << driver.pipe.reason();
    if (HasFailure()) break;
  }
  other.join();
  EXPECT_EQ(fabric.rnr(), 0);
}

TEST(Rdma, ACompletionBetweenTheLastPollAndTheArmingIsSeen) {
  Fabric fabric;
  Ends ends(fabric);
  fabric.set_around_arm([&] { write_all(ends.b(), {'x'}); }, nullptr);
  EXPECT_TRUE(ends.a().prepare_to_sleep());
  EXPECT_FALSE(readable(ends.a())) << "no event told about it";
  std::vector<char> got;
  EXPECT_EQ(read_some(ends.a(), &got), 1);
  EXPECT_FALSE(ends.a().prepare_to_sleep());
  write_all(ends.b(), {'y'});
  EXPECT_TRUE(readable(ends.a()));
}

// Of a send, say, which gives nothing to read.
TEST(Rdma, ACompletionRightAfterTheArmingWakes) {
  Fabric fabric(Fabric::Pace::kByHand);
  Ends ends(fabric);
  EXPECT_EQ(write_all(ends.a(), {'x'}), 1);
  fabric.set_around_arm(nullptr, [&] {
    while (fabric.step()) {
    }
  });
  EXPECT_FALSE(ends.a().prepare_to_sleep());
  EXPECT_TRUE(readable(ends.a())) << "nothing would wake it any more";
}

TEST(Rdma, WhoWritesDoesNotTakeTheWakeUpOfWhoSleeps) {
  Fabric fabric;
  Ends ends(fabric);
  EXPECT_FALSE(ends.a().prepare_to_sleep());  // one thread sleeps
  write_all(ends.b(), {'x'});
  while (write_all(ends.a(), random_bytes(100'000, 1)) > 0) {  // another one writes
  }
  EXPECT_TRUE(readable(ends.a()));
}

TEST(Rdma, AnEventThatComesLateCostsNoLaterOne) {
  Fabric fabric(Fabric::Pace::kByHand);
  Ends ends(fabric);
  const auto settle = [&] {
    while (fabric.step()) {
    }
  };
  EXPECT_FALSE(ends.a().prepare_to_sleep());
  write_all(ends.b(), {'x'});
  std::vector<char> got;
  // The completion is polled before its event has come.
  while (read_some(ends.a(), &got) == kWouldBlock) ASSERT_TRUE(fabric.step());
  ends.a().prepare_to_sleep();
  settle();
  EXPECT_TRUE(readable(ends.a()));
  while (ends.a().prepare_to_sleep()) read_some(ends.a(), &got);
  EXPECT_FALSE(readable(ends.a())) << "events have to be taken";
  write_all(ends.b(), {'y'});
  settle();
  EXPECT_TRUE(readable(ends.a()));
}

TEST(Rdma, CreditsAreNeverOverrunAndNeverRunOut) {
  for (uint32_t most : {4096u, 16u, 4u}) {
    SCOPED_TRACE(most);
    Fabric fabric;
    Ends ends(fabric, {.name = "mock0"}, {.name = "mock1", .most = most});
    const int64_t slots = std::min<int64_t>(most, kMostSlots);
    const std::vector<char> much = random_bytes(3'000'000, 1);
    std::vector<char> got_a, got_b;
    // Both write until nothing goes, and only then does anybody read: the last credit is kept.
    for (int round = 1; round <= 20; ++round) {
      EXPECT_GT(write_all(ends.a(), much), 0);
      EXPECT_EQ(write_all(ends.a(), much), kWouldBlock);
      EXPECT_GT(write_all(ends.b(), much), 0);
      EXPECT_EQ(write_all(ends.b(), much), kWouldBlock);
      if (round == 1) {
        EXPECT_FALSE(ends.a().regained_room());
      }
      while (read_some(ends.a(), &got_a) > 0) {
      }
      while (read_some(ends.b(), &got_b) > 0) {
      }
      while (read_some(ends.a(), &got_a) > 0) {
      }
      if (round == 1) {
        EXPECT_EQ(static_cast<int64_t>(got_b.size()), (slots - 1) * kMessageBytes);
        EXPECT_EQ(static_cast<int64_t>(got_a.size()), (kMostSlots - 1) * kMessageBytes);
      }
      EXPECT_TRUE(ends.a().regained_room()) << "round " << round;
      EXPECT_TRUE(ends.b().regained_room()) << "round " << round;
      if (HasFailure()) break;
    }
    EXPECT_EQ(fabric.rnr(), 0);
    EXPECT_EQ(fabric.faults(), std::vector<std::string>{});
  }
}

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
      EXPECT_EQ(ends.b().reason(), "mock1 port 1: closed by the other side");
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
  EXPECT_EQ(ends.b().reason(), "mock1 port 1: closed by the other side");
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
    EXPECT_EQ(ends.a().reason(), "mock0 port 1: the other side's endpoint is not authentic");
    EXPECT_EQ(ends.b().reason(), "mock1 port 1: the other side's endpoint is not authentic");
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

std::vector<std::string> opened(const Options& options, std::string* reason) {
  std::vector<std::string> names;
  for (const auto& port : open_rdma_ports(options, reason)) names.push_back(port->name());
  return names;
}

TEST(RdmaPorts, AreFoundOrMissedByName) {
  using Names = std::vector<std::string>;
  Fabric fabric;
  Options options;
  std::string reason;
  EXPECT_EQ(opened(options, &reason), Names{});
  EXPECT_EQ(reason, "STRETTO_RDMA is off");
  options.rdma_provider = fabric.machine({});
  options.rdma = "auto";
  EXPECT_EQ(opened(options, &reason), Names{});
  EXPECT_EQ(reason, "this machine has no RDMA card");
  options.rdma_provider = fabric.machine({{.name = "m0", .active = false}, {.name = "m1"}});
  EXPECT_EQ(opened(options, &reason), Names{"m1:1"});
  EXPECT_EQ(reason, "");
  options.rdma = "m1,m1:1";
  EXPECT_EQ(opened(options, &reason), (Names{"m1:1", "m1:1"}));
  const std::pair<const char*, const char*> kWrong[] = {
      {"m0", "m0:1 is not active"},
      {"m1:2", "m1:2 has no such port"},
      {"m1,m7", "this machine has no RDMA card m7"},
      {"m1:x", "is none of off, auto, or ports"},
      {"m1:0", "is none of off, auto, or ports"},
      {"m1,", "is none of off, auto, or ports"},
      {"", "is none of off, auto, or ports"}};
  for (const auto& [text, expected] : kWrong) {
    options.rdma = text;
    try {
      open_rdma_ports(options, &reason);
      ADD_FAILURE() << text << ": no error";
    } catch (const InvalidArgument& e) {
      EXPECT_NE(std::string(e.what()).find(expected), std::string::npos) << e.what();
    }
  }
  EXPECT_EQ(fabric.objects(), 0);
}

TEST(RdmaPorts, TheAddressThatIsRoutedLikeTcpsIsChosen) {
  verbs::Gid none{}, ipv4{}, ipv6{}, local{};
  ipv4[10] = ipv4[11] = 0xff, ipv4[12] = 10;
  ipv6[0] = 0x20, ipv6[15] = 1;
  local[0] = 0xfe, local[1] = 0x80;
  EXPECT_EQ(gid_rank(none, true, "RoCE v2"), 0);
  EXPECT_GT(gid_rank(ipv4, true, "RoCE v2"), gid_rank(ipv6, true, "RoCE v2"));
  EXPECT_GT(gid_rank(ipv6, true, "RoCE v2"), gid_rank(local, true, "RoCE v2"));
  EXPECT_GT(gid_rank(local, true, "RoCE v2"), gid_rank(ipv4, true, "IB/RoCE v1"));
  EXPECT_GT(gid_rank(local, false, ""), 0);
}

TEST(RdmaPorts, BothSidesCountTheSameRails) {
  const RdmaRails none{.rails = {}, .reason = "STRETTO_RDMA is off"};
  const RdmaRails one{.rails = {{"m0:1", true}}, .reason = ""};
  const RdmaRails two{.rails = {{"m0:1", true}, {"m1:1", false}}, .reason = ""};
  const RdmaRails other{.rails = {{"m2:1", false}, {"m3:1", false}}, .reason = ""};
  std::string reason;
  EXPECT_EQ(count_rails(two, two, 3, &reason), 2);
  EXPECT_EQ(reason, "");
  EXPECT_EQ(count_rails(one, two, 3, &reason), 1);
  EXPECT_EQ(count_rails(two, one, 3, &reason), 1);
  EXPECT_EQ(count_rails(one, none, 3, &reason), 0);
  EXPECT_EQ(reason, "rank 3: STRETTO_RDMA is off");
  EXPECT_EQ(count_rails(none, one, 3, &reason), 0);
  EXPECT_EQ(reason, "STRETTO_RDMA is off");
  EXPECT_EQ(count_rails(two, other, 3, &reason), 0);
  EXPECT_EQ(reason, "m0:1 is Ethernet, m2:1 of rank 3 is InfiniBand");
}

}  // namespace
}  // namespace stretto::comm
