// The eager limit: messages that arrive before the receiver asks for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>

#include "stretto/base/clock.h"
#include "stretto/comm/link/links.h"

namespace stretto::comm {
namespace {

constexpr double kPatience_s = 120;
constexpr int64_t kLimit = 1 << 20;
constexpr size_t kBytes = 100'000;
constexpr int kMessages = 60;  // together six times the limit

struct Node {
  Node(Store& store, int rank, int streams)
      : options(made(streams)), links(store, {rank, 2}, options) {}
  static Options made(int streams) {  // 0: shared memory
    Options options;
    options.transports = streams == 0 ? "shm" : "tcp";
    if (streams > 0) options.streams = streams;
    options.chunk_bytes = 8 << 10;
    options.eager_limit_bytes = kLimit;
    options.tuning = Tuning::kOff;  // no more streams than that
    options.silent_limit_s = kPatience_s;
    return options;
  }
  Events poll(double wait_s) {
    std::unique_lock lock(mutex);
    links.poll(lock, wait_s);
    return std::exchange(links.events(), {});
  }
  const Options options;
  std::mutex mutex;
  Links links;
};

struct Pair {
  explicit Pair(int streams) {
    const auto store = memory_store();
    std::thread threads[2];
    for (int rank = 0; rank < 2; ++rank) {
      threads[rank] = std::thread([&, rank] {
        nodes[rank] = std::make_unique<Node>(*store, rank, streams);
        const double deadline = now_s() + kPatience_s;
        while (!nodes[rank]->links.formed() && now_s() < deadline) nodes[rank]->poll(0.1);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  Link& to(int rank) { return nodes[1 - rank]->links.link_to(rank); }
  std::unique_ptr<Node> nodes[2];
};

std::vector<std::byte> content(int i) {
  std::mt19937 random(static_cast<unsigned>(i));
  std::vector<std::byte> data(i % 7 == 0 ? 10 : kBytes);
  for (std::byte& b : data) b = static_cast<std::byte>(random());
  return data;
}

// Rank 0 sends everything at once. Rank 1 asks for nothing for a while, then for the last message
// first. `cut`: a stream breaks meanwhile.
void send_before_anyone_asks(int streams, bool cut) {
  SCOPED_TRACE(::testing::Message() << streams << " streams, cut " << cut);
  Pair pair(streams);
  std::vector<std::vector<std::byte>> sent, got(kMessages);
  int owners[2];
  for (int i = 0; i < kMessages; ++i) sent.push_back(content(i));
  for (int i = 0; i < kMessages; ++i)
    pair.to(1).send({.key = {.sequence = static_cast<uint64_t>(i)},
                     .data = sent[i].data(),
                     .bytes = sent[i].size(),
                     .ticket = {&owners[0], i}});
  int sends = 0, receives = 0, arrivals = 0;
  const auto poll_both = [&] {
    const Events there = pair.nodes[0]->poll(0.001), here = pair.nodes[1]->poll(0.001);
    sends += static_cast<int>(there.done.size());
    receives += static_cast<int>(here.done.size());
    arrivals += static_cast<int>(here.arrivals.size());
  };
  // Every message is announced, but most of them stay with the sender.
  const double deadline = now_s() + kPatience_s;
  while (arrivals < kMessages && now_s() < deadline) poll_both();
  ASSERT_EQ(arrivals, kMessages);
  for (int i = 0; i < 50; ++i) poll_both();
  EXPECT_LT(sends, kMessages / 2) << "a send is done when its memory may change, not before";
  if (cut) pair.to(1).cut(0, "cut by the test");
  for (int i = kMessages - 1; i >= 0; --i) {
    got[i].resize(sent[i].size());
    const Expect outcome = pair.to(0).expect({.sequence = static_cast<uint64_t>(i)}, got[i].data(),
                                             got[i].size(), 0, {&owners[1], i});
    ASSERT_NE(outcome, Expect::kMismatch);
    receives += outcome == Expect::kComplete;
    poll_both();
  }
  while ((receives < kMessages || sends < kMessages) && now_s() < deadline) poll_both();
  EXPECT_EQ(receives, kMessages);
  EXPECT_EQ(sends, kMessages);
  for (int i = 0; i < kMessages; ++i) EXPECT_EQ(got[i], sent[i]) << i;
  EXPECT_LE(pair.to(0).peak_eager_bytes(), kLimit);
  EXPECT_GT(pair.to(0).peak_eager_bytes(), kLimit / 2);
  while (!pair.to(1).idle() && now_s() < deadline) poll_both();
  EXPECT_TRUE(pair.to(1).idle());
}

TEST(Eager, TakesNoMoreMemoryThanAllowedAndLosesNothing) {
  for (int streams : {0, 1, 3}) send_before_anyone_asks(streams, false);
  send_before_anyone_asks(3, true);
}

// A message that was asked for in time is sent in full, although it is larger than the limit.
TEST(Eager, AMessageLargerThanTheLimitComesThrough) {
  Pair pair(2);
  std::vector<std::byte> sent(5 * kLimit), got(5 * kLimit);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7);
  int owners[2], done = 0;
  pair.to(0).expect({}, got.data(), got.size(), 0, {&owners[1], 0});
  pair.to(1).send({.data = sent.data(), .bytes = sent.size(), .ticket = {&owners[0], 0}});
  const double deadline = now_s() + kPatience_s;
  while (done < 2 && now_s() < deadline)
    done += static_cast<int>(pair.nodes[0]->poll(0.001).done.size() +
                             pair.nodes[1]->poll(0.001).done.size());
  EXPECT_EQ(done, 2);
  EXPECT_EQ(got, sent);
  EXPECT_EQ(pair.to(0).peak_eager_bytes(), 0);
}

TEST(Eager, ARendezvousWaitsUntilItIsAskedFor) {
  Pair pair(2);
  std::vector<std::byte> sent(kLimit / 2, std::byte{3}), got(kLimit / 2);
  int owners[2], done = 0;
  const auto poll_both = [&] {
    for (const auto& node : pair.nodes) done += static_cast<int>(node->poll(0.001).done.size());
  };
  pair.to(1).send(
      {.data = sent.data(), .bytes = sent.size(), .ticket = {&owners[0], 0}, .rendezvous = true});
  for (int i = 0; i < 20; ++i) poll_both();
  EXPECT_EQ(done, 0);
  EXPECT_EQ(pair.to(0).peak_eager_bytes(), 0);
  pair.to(0).expect({}, got.data(), got.size(), 0, {&owners[1], 0});
  const double deadline = now_s() + kPatience_s;
  while (done < 2 && now_s() < deadline) poll_both();
  EXPECT_EQ(done, 2);
  EXPECT_EQ(got, sent);
}

}  // namespace
}  // namespace stretto::comm
