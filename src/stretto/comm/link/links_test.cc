#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "stretto/base/clock.h"
#include "stretto/comm/link/links_testing.h"

namespace stretto::comm {
namespace {

using testing::content;
using testing::fill;
using testing::form_job;
using testing::kPatience_s;
using testing::Node;

// Both ranks send all messages at once and ask for them in a random order, while streams are cut at
// random moments on either side; one is left. Everything must arrive exactly once and unharmed.
void exchange_with_cuts(unsigned seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  constexpr int kMessages = 40;
  constexpr int kStreams = 4;
  const auto store = memory_store();
  auto nodes = form_job(*store, 2, seed, kStreams);
  std::mt19937 random(seed);
  std::vector<std::vector<std::byte>> sent[2], got[2];
  std::vector<int> order[2];
  int received[2] = {0, 0}, acknowledged[2] = {0, 0};
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < kMessages; ++i) {
      sent[rank].push_back(content(rank, i));
      got[rank].emplace_back(content(1 - rank, i).size());
      order[rank].push_back(i);
    }
    std::shuffle(order[rank].begin(), order[rank].end(), random);
  }
  int owner_of[2] = {0, 1};
  const auto ask = [&](int rank, int i) {
    std::vector<std::byte>& to = got[rank][i];
    Ticket ticket{&owner_of[rank], kMessages + i};
    const Expect outcome = nodes[rank]->links.link_to(1 - rank).expect(
        {.sequence = static_cast<uint64_t>(i)}, to.data(), to.size(), 77, ticket);
    ASSERT_NE(outcome, Expect::kMismatch);
    received[rank] += outcome == Expect::kComplete;
  };
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < kMessages; ++i) {
      nodes[rank]->links.link_to(1 - rank).send({.key = {.sequence = static_cast<uint64_t>(i)},
                                                 .fingerprint = 77,
                                                 .data = sent[rank][i].data(),
                                                 .bytes = sent[rank][i].size(),
                                                 .ticket = {&owner_of[rank], i}});
    }
  }
  std::vector<int> cuts{0, 1, 2, 3};
  std::shuffle(cuts.begin(), cuts.end(), random);
  cuts.pop_back();  // the one that is left
  const double deadline = now_s() + kPatience_s;
  size_t asked[2] = {0, 0};
  while (now_s() < deadline && (received[0] < kMessages || received[1] < kMessages ||
                                acknowledged[0] < kMessages || acknowledged[1] < kMessages)) {
    const int rank = static_cast<int>(random() % 2);
    if (asked[rank] < order[rank].size()) ask(rank, order[rank][asked[rank]++]);
    if (!cuts.empty() && random() % 25 == 0) {
      const int side = static_cast<int>(random() % 2);
      nodes[side]->links.link_to(1 - side).cut(cuts.back(), "cut by the test");
      cuts.pop_back();
    }
    nodes[rank]->poll(0);
    Events events = std::exchange(nodes[rank]->links.events(), {});
    ASSERT_TRUE(events.losses.empty());
    for (const Ticket& ticket : events.done) {
      ASSERT_EQ(ticket.owner, &owner_of[rank]);
      ++(ticket.step < kMessages ? acknowledged : received)[rank];
    }
  }
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(received[rank], kMessages);
    EXPECT_EQ(acknowledged[rank], kMessages);
    for (int i = 0; i < kMessages; ++i) EXPECT_EQ(got[rank][i], sent[1 - rank][i]) << i;
  }
}

TEST(Links, NothingIsLostOrDoubledWhenStreamsAreCut) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    exchange_with_cuts(seed);
    if (HasFailure()) break;
  }
}

TEST(Links, SharedMemoryCarriesWhatSocketsDo) {
  const auto store = memory_store();
  auto nodes = form_job(*store, 2, 0, 0);
  ASSERT_EQ(nodes[0]->links.link_to(1).streams().size(), 1u);
  EXPECT_EQ(nodes[0]->links.link_to(1).streams()[0].name, "shm");
  // Larger than the ring, so that both sides have to wait for one another.
  std::vector<std::byte> sent[2], got[2];
  std::thread threads[2];
  for (int rank = 0; rank < 2; ++rank) {
    sent[rank].resize(5'000'000 + rank);
    fill(sent[rank], static_cast<unsigned>(rank));
    got[rank].resize(5'000'000 + (1 - rank));
  }
  for (int rank = 0; rank < 2; ++rank) {
    threads[rank] = std::thread([&, rank] {
      Link& link = nodes[rank]->links.link_to(1 - rank);
      Ticket ticket{&got[rank], 1};
      link.expect({}, got[rank].data(), got[rank].size(), 0, ticket);
      link.send(
          {.data = sent[rank].data(), .bytes = sent[rank].size(), .ticket = {&sent[rank], 2}});
      int done = 0;
      const double deadline = now_s() + kPatience_s;
      while (done < 2 && now_s() < deadline) {
        nodes[rank]->poll(10);
        done += static_cast<int>(std::exchange(nodes[rank]->links.events(), {}).done.size());
      }
      EXPECT_EQ(done, 2) << "rank " << rank;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(got[0], sent[1]);
  EXPECT_EQ(got[1], sent[0]);
  nodes[0].reset();
  const double deadline = now_s() + kPatience_s;
  while (nodes[1]->links.link_to(0).alive() && now_s() < deadline) nodes[1]->poll(10);
  EXPECT_FALSE(nodes[1]->links.link_to(0).alive());
}

TEST(Links, TheLastStreamIsALoss) {
  const auto store = memory_store();
  auto nodes = form_job(*store, 2, 0, 2);
  Link& link = nodes[0]->links.link_to(1);
  link.cut(0, "first");
  EXPECT_TRUE(nodes[0]->links.events().losses.empty());
  link.cut(1, "second");
  ASSERT_EQ(nodes[0]->links.events().losses.size(), 1u);
  EXPECT_EQ(nodes[0]->links.events().losses[0].reason, "second");
  EXPECT_FALSE(link.alive());
  const double deadline = now_s() + kPatience_s;
  while (nodes[1]->links.link_to(0).alive() && now_s() < deadline) nodes[1]->poll(0.1);
  EXPECT_EQ(nodes[1]->links.events().losses.size(), 1u);
}

TEST(Links, StreamsThatAreNotUsedCarryNothingUntilTheyAreNeeded) {
  const auto store = memory_store();
  auto nodes = form_job(*store, 2, 0, 3);
  Link& link = nodes[0]->links.link_to(1);
  std::vector<char> data(1 << 20, 'x');
  uint64_t sequence = 0;
  const auto exchange = [&] {
    std::vector<char> got(data.size());
    Ticket ticket{&got, 0};
    link.send({.key = {.sequence = sequence}, .data = data.data(), .bytes = data.size()});
    nodes[1]->links.link_to(0).expect({.sequence = sequence}, got.data(), got.size(), 0, ticket);
    ++sequence;
    const double deadline = now_s() + kPatience_s;
    while (nodes[1]->links.events().done.empty() && now_s() < deadline)
      for (auto& node : nodes) node->poll(0);
    nodes[1]->links.events() = {};
    EXPECT_EQ(got, data);
  };
  const auto sent = [&](int stream) { return link.streams()[stream].sent_bytes; };
  link.use_streams(1);
  const int64_t before[] = {sent(0), sent(1), sent(2)};
  exchange();
  EXPECT_GT(sent(0) - before[0], 1 << 20);
  EXPECT_EQ(sent(1) + sent(2), before[1] + before[2]);
  link.cut(0, "broken");
  exchange();
  EXPECT_GT(sent(1) - before[1], 1 << 20) << "the first that lives";
  EXPECT_EQ(sent(2), before[2]);
  link.use_streams(2);
  data.resize(32 << 20);  // more than one socket takes
  exchange();
  EXPECT_GT(sent(2), before[2]);
}

// Every rank sends large messages to every other, and streams are cut in the middle of paced
// chunks.
void exchange_among_many(unsigned seed) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  constexpr int kRanks = 6, kMessages = 4, kStreams = 3;
  const auto store = memory_store();
  auto nodes = form_job(*store, kRanks, seed, kStreams, 0);
  std::mt19937 random(seed);
  const auto bytes_of = [&](int from, int to, int i) {
    return 20'000 + 130'001 * static_cast<size_t>((from + 2 * to + 3 * i) % 5);  // some small
  };
  std::map<std::array<int, 3>, std::vector<std::byte>> sent, got;
  for (int from = 0; from < kRanks; ++from) {
    for (int to = 0; to < kRanks; ++to) {
      for (int i = 0; i < kMessages && from != to; ++i) {
        std::vector<std::byte>& data = sent[{from, to, i}];
        data.resize(bytes_of(from, to, i));
        fill(data, static_cast<unsigned>(random()));
        std::vector<std::byte>& into = got[{from, to, i}];
        into.resize(data.size());
        Ticket ticket{&got, 0};
        nodes[to]->links.link_to(from).expect({.sequence = static_cast<uint64_t>(i)}, into.data(),
                                              into.size(), 0, ticket);
        nodes[from]->links.link_to(to).send({.key = {.sequence = static_cast<uint64_t>(i)},
                                             .data = data.data(),
                                             .bytes = data.size()});
      }
    }
  }
  size_t received = 0;
  const double deadline = now_s() + kPatience_s;
  while (received < sent.size() && now_s() < deadline) {
    const int rank = static_cast<int>(random() % kRanks);
    if (random() % 20 == 0) {  // the last stream of a link is never cut
      const int other = (rank + 1 + static_cast<int>(random() % (kRanks - 1))) % kRanks;
      nodes[rank]->links.link_to(other).cut(static_cast<int>(random() % (kStreams - 1)),
                                            "by the test");
    }
    nodes[rank]->poll(0);
    Events events = std::exchange(nodes[rank]->links.events(), {});
    ASSERT_TRUE(events.losses.empty());
    received += events.done.size();
  }
  EXPECT_EQ(received, sent.size());
  for (const auto& [key, data] : sent) EXPECT_EQ(got[key], data);
}

TEST(Links, PacedChunksAmongManyRanksSurviveCutStreams) {
  for (unsigned seed = 0; seed < 20 && !HasFailure(); ++seed) exchange_among_many(seed);
}

// A rank that does not read holds up paced chunks for a while only.
TEST(Links, RanksThatDoNotReadDoNotHoldUpPacedChunksOfOthers) {
  constexpr int kStuck = 4, kSize = 7;
  const auto store = memory_store();
  auto nodes = form_job(*store, kSize, 0, 2);
  const std::vector<char> endless(16 << 20, 'x'), data(1 << 20, 'y');
  std::vector<std::vector<char>> got(kSize, std::vector<char>(data.size()));
  for (int rank = 1; rank < kSize; ++rank) {
    const std::vector<char>& message = rank <= kStuck ? endless : data;
    nodes[0]->links.link_to(rank).send({.data = message.data(), .bytes = message.size()});
    Ticket ticket{&got[rank], 0};
    if (rank > kStuck)
      nodes[rank]->links.link_to(0).expect({}, got[rank].data(), data.size(), 0, ticket);
  }
  const auto reads = [&](int rank) { return rank == 0 || rank > kStuck; };
  const auto arrived = [&](int rank) { return !nodes[rank]->links.events().done.empty(); };
  const double deadline = now_s() + kPatience_s / 4;  // before they are given up for their silence
  while (now_s() < deadline && !(arrived(5) && arrived(6))) {
    for (int rank = 0; rank < kSize; ++rank)
      if (reads(rank)) nodes[rank]->poll(0);
  }
  EXPECT_EQ(got[5], data);
  EXPECT_EQ(got[6], data);
  EXPECT_FALSE(nodes[0]->links.link_to(1).flushed()) << "it has not read";
}

TEST(Links, SeveralJobsFormAtOnceInOneProcess) {
  for (int round = 0; round < 60; ++round) {
    const auto store = memory_store();
    std::vector<std::thread> jobs;
    for (uint32_t epoch = 0; epoch < 3; ++epoch)
      jobs.emplace_back([&, epoch] { form_job(*store, 3, epoch, 2); });
    for (std::thread& job : jobs) job.join();
    if (HasFailure()) break;
  }
}

Fd connect_to(int port) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address{.sin_family = AF_INET,
                            .sin_port = htons(static_cast<uint16_t>(port)),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

TEST(Links, StrangersDoNoHarm) {
  const auto store = memory_store();
  std::unique_ptr<Node> nodes[2];
  std::thread first([&] {
    nodes[0] = std::make_unique<Node>(*store, Membership{.rank = 0, .size = 2}, 2);
    EXPECT_TRUE(nodes[0]->form());
  });
  const auto record = nlohmann::json::parse(store->get("stretto/0/rank/0", kPatience_s));
  // Garbage, half a hello, a hello without the secret, all before rank 1 comes.
  std::vector<Fd> strangers;
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    Fd stranger = connect_to(record.at("port"));
    std::string text(1 + random() % 500, '\0');
    for (char& c : text) c = static_cast<char>(random());
    send(stranger.get(), text.data(), text.size(), MSG_NOSIGNAL);
    strangers.push_back(std::move(stranger));
  }
  Fd liar = connect_to(record.at("port"));
  const HelloBytes hello =
      encode_hello({.from = 1, .to = 0, .stream = 0, .streams = 1, .nonce = random_nonce()});
  send(liar.get(), hello.data(), hello.size(), MSG_NOSIGNAL);
  send(liar.get(), Mac{}.data(), sizeof(Mac), MSG_NOSIGNAL);
  nodes[1] = std::make_unique<Node>(*store, Membership{.rank = 1, .size = 2}, 2);
  EXPECT_TRUE(nodes[1]->form());
  first.join();
  EXPECT_EQ(nodes[0]->links.link_to(1).streams().size(), 1u);
}

}  // namespace
}  // namespace stretto::comm
