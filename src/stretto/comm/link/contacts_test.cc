// Which links and streams there are, and when.
#include <fmt/core.h>

#include "stretto/comm/link/links_testing.h"

namespace stretto::comm {
namespace {

using testing::form_job;
using testing::kPatience_s;
using testing::Node;
using testing::patient;

using Nodes = std::vector<std::unique_ptr<Node>>;

// Ranks that are connected to those at a distance of 1, 2, 4, ... only.
Options sparse(int streams = 1) {
  Options options = patient(streams, 1);
  options.mesh_ranks = 2;
  return options;
}

std::vector<int> ranks_of(const Node& node) {
  std::vector<int> ranks;
  for (const Link* link : node.links.all()) ranks.push_back(link->rank());
  return ranks;
}

template <typename Condition>
bool poll_until(Nodes& nodes, const Condition& condition) {
  const double deadline = now_s() + kPatience_s;
  while (!condition() && now_s() < deadline) {
    for (auto& node : nodes) {
      if (node) node->poll(0.0002);
    }
  }
  return condition();
}

// Sends a message; whether it arrives. `asks`: the receiver asks for it before it comes.
bool exchange(Nodes& nodes, int from, int to, size_t bytes, bool asks) {
  static uint64_t sequence = 0;
  std::vector<std::byte> sent(bytes), got(bytes);
  testing::fill(sent, 1);
  const MessageKey key{.sequence = ++sequence};
  const Ticket ticket{&got, 0};
  bool arrived = false;
  const auto ask = [&] {
    arrived = nodes[to]->links.link_to(from).expect(key, got.data(), bytes, 0, ticket) ==
              Expect::kComplete;
  };
  if (asks) ask();
  nodes[from]->links.link_to(to).send({.key = key, .data = sent.data(), .bytes = bytes});
  if (!asks) {
    EXPECT_TRUE(poll_until(nodes, [&] { return !nodes[to]->links.events().arrivals.empty(); }));
    ask();
  }
  arrived = poll_until(nodes, [&] { return arrived || !nodes[to]->links.events().done.empty(); });
  for (int rank : {from, to}) nodes[rank]->links.events() = {};
  EXPECT_EQ(got, sent);
  return arrived;
}

TEST(Contacts, ASmallJobIsAMeshWithOneStreamPerLink) {
  const auto store = memory_store();
  Nodes nodes = form_job(*store, 5, 0, patient(8, 1));
  for (const auto& node : nodes) {
    EXPECT_EQ(node->links.all().size(), 4u);
    for (const Link* link : node->links.all()) EXPECT_EQ(link->streams().size(), 1u);
    EXPECT_EQ(node->links.rounds_to_reach_all(), 1);
  }
}

TEST(Contacts, ALargeJobConnectsNeighboursOnly) {
  const auto store = memory_store();
  Nodes nodes = form_job(*store, 11, 0, sparse());
  EXPECT_EQ(ranks_of(*nodes[0]), (std::vector<int>{1, 2, 3, 4, 7, 8, 9, 10}));
  EXPECT_EQ(ranks_of(*nodes[6]), (std::vector<int>{2, 3, 4, 5, 7, 8, 9, 10}));
  EXPECT_GE(nodes[0]->links.rounds_to_reach_all(), 2);
}

TEST(Contacts, ALinkIsMadeWhenEitherSideAsksForIt) {
  for (const char* transports : {"tcp", "shm"}) {
    // The lower rank calls the higher one; the higher one connects; both ask at once.
    for (const auto& [from, to, asks] : {std::tuple{0, 6, false}, {6, 0, false}, {6, 0, true}}) {
      SCOPED_TRACE(fmt::format("{} from {} to {}, asks {}", transports, from, to, asks));
      const auto store = memory_store();
      Options options = sparse();
      options.transports = transports;
      Nodes nodes = form_job(*store, 12, 0, options);
      const auto linked = [&](int rank) { return ranks_of(*nodes[rank]).size(); };
      EXPECT_EQ(linked(0), 6u);
      EXPECT_TRUE(exchange(nodes, from, to, 1000, asks));
      EXPECT_TRUE(exchange(nodes, to, from, 1000, true));
      for (int rank : {0, 6}) {
        EXPECT_EQ(linked(rank), 7u);
        EXPECT_EQ(nodes[rank]->links.link_to(6 - rank).streams().size(), 1u);
        EXPECT_FALSE(nodes[rank]->links.is_connecting(6 - rank));
      }
      EXPECT_EQ(linked(1), 6u);
    }
  }
}

TEST(Contacts, MoreStreamsAreConnectedWhenLargeMessagesAreUnderWay) {
  for (int from : {0, 1}) {
    SCOPED_TRACE(from);
    const auto store = memory_store();
    Nodes nodes = form_job(*store, 2, 0, patient(3, 1));
    const auto streams = [&](int rank) {
      return nodes[rank]->links.link_to(1 - rank).living_streams();
    };
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(exchange(nodes, from, 1 - from, 4000, true));
    EXPECT_EQ(streams(0), 1);
    EXPECT_TRUE(exchange(nodes, from, 1 - from, 8 << 20, true));
    EXPECT_TRUE(poll_until(nodes, [&] { return streams(0) == 3 && streams(1) == 3; }));
    EXPECT_TRUE(exchange(nodes, from, 1 - from, 8 << 20, true));
    for (const auto& stream : nodes[from]->links.link_to(1 - from).streams())
      EXPECT_GT(stream.sent_bytes, 0) << stream.name;
  }
}

// The store says that the rank was there once.
TEST(Contacts, ALinkToARankThatHasLeftEnds) {
  for (int asker : {0, 6}) {
    SCOPED_TRACE(asker);
    const auto store = memory_store();
    Options options = sparse();
    options.silent_limit_s = 1;
    Nodes nodes = form_job(*store, 12, 0, options);
    nodes[6 - asker].reset();
    Links& links = nodes[asker]->links;
    std::vector<std::byte> got(10);
    const Ticket ticket{&got, 0};
    EXPECT_EQ(links.link_to(6 - asker).expect({}, got.data(), got.size(), 0, ticket),
              Expect::kPending);
    const Link& link = links.link_to(6 - asker);
    EXPECT_TRUE(poll_until(nodes, [&] { return link.departed; }));
    EXPECT_TRUE(link.owes());
    EXPECT_FALSE(links.is_connecting(6 - asker));
  }
}

TEST(Contacts, ALinkThatDoesNotStandInTimeIsALoss) {
  for (int asker : {0, 6}) {
    SCOPED_TRACE(asker);
    const auto store = memory_store();
    Nodes nodes = form_job(*store, 12, 0, sparse());
    nodes[asker]->options.connect_timeout_s = 0.2;
    Links& links = nodes[asker]->links;
    links.link_to(6 - asker);
    const double deadline = now_s() + kPatience_s;
    while (links.events().losses.empty() && now_s() < deadline) nodes[asker]->poll(0.01);
    ASSERT_EQ(links.events().losses.size(), 1u);
    EXPECT_EQ(links.events().losses[0].rank, 6 - asker);
    EXPECT_EQ(links.events().losses[0].reason,
              "not connected after 0.2 s (STRETTO_CONNECT_TIMEOUT)");
  }
}

// Polls and heartbeats cost as much as there are links to ranks that are still there.
TEST(Contacts, ALinkThatHasEndedIsNotPolledAnyMore) {
  for (const char* transports : {"tcp", "shm"}) {
    SCOPED_TRACE(transports);
    const auto store = memory_store();
    Options options = patient(1, 1);
    options.transports = transports;
    options.silent_limit_s = 5;  // a beat twice a second
    Nodes nodes = form_job(*store, 4, 0, options);
    const auto active = [&](int rank) { return nodes[rank]->links.active().size(); };
    EXPECT_EQ(active(0), 3u);
    const auto leave = [&](int rank, bool says_so) {
      for (Link* link : nodes[rank]->links.all())
        if (says_so && link->alive()) link->send_control(FrameType::kBye, {}, rank, "");
      nodes[rank].reset();
    };
    leave(3, true);
    EXPECT_TRUE(poll_until(nodes, [&] { return active(0) == 2 && active(1) == 2; }));
    leave(2, false);
    EXPECT_TRUE(poll_until(nodes, [&] { return active(0) == 1 && active(1) == 1; }));
    EXPECT_EQ(ranks_of(*nodes[0]), (std::vector<int>{1, 2, 3})) << "they stay in statistics";
    EXPECT_EQ(nodes[0]->links.active()[0]->rank(), 1);
    EXPECT_TRUE(exchange(nodes, 0, 1, 100'000, true));
    leave(1, true);
    EXPECT_TRUE(poll_until(nodes, [&] { return active(0) == 0; }));
    nodes[0]->poll(0);
    EXPECT_FALSE(nodes[0]->links.hears_anyone());
  }
}

TEST(Contacts, ALinkThatNeverStoodIsNotPolledAnyMore) {
  const auto store = memory_store();
  Nodes nodes = form_job(*store, 12, 0, sparse());
  nodes[0]->options.connect_timeout_s = 0.2;
  Links& links = nodes[0]->links;
  links.link_to(6);  // which does not poll, so that it does not answer
  EXPECT_EQ(links.active().size(), 7u);
  const double deadline = now_s() + kPatience_s;
  while (links.active().size() > 6 && now_s() < deadline) nodes[0]->poll(0.01);
  EXPECT_EQ(links.active().size(), 6u);
  EXPECT_EQ(ranks_of(*nodes[0]), (std::vector<int>{1, 2, 4, 6, 8, 10, 11}));
}

}  // namespace
}  // namespace stretto::comm
