// Everything here runs against mock cards (verbs_testing.h): the state machine is tested, no card.
#include <sys/epoll.h>

#include <thread>

#include "stretto/comm/link/rdma_testing.h"

namespace stretto::comm {
namespace {

using testing::Ends;
using testing::Fabric;
using testing::kMessageBytes;
using testing::random_bytes;
using testing::read_some;
using testing::readable;
using testing::write_all;

// Sleeping so long twice in succession means that a wake-up was lost; once, that the whole process
// stood still, and its other threads have not run yet.
constexpr int kHang_ms = 60'000;

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
      if (epoll_wait(epoll.get(), &event, 1, kHang_ms) == 0 &&
          epoll_wait(epoll.get(), &event, 1, kHang_ms) == 0)
        return false;
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

// The completion may be that of a send, which gives nothing to read.
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

}  // namespace
}  // namespace stretto::comm
