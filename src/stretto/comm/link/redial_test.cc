// Streams that break while others of their link live, and come back.
#include "stretto/comm/link/links_testing.h"

namespace stretto::comm {
namespace {

using testing::content;
using testing::form_job;
using testing::kPatience_s;
using testing::Node;

using Nodes = std::vector<std::unique_ptr<Node>>;

// Until both sides have all their streams; false: it takes too long.
bool heal(Nodes& nodes, size_t streams) {
  const auto whole = [&](int rank) {
    const auto states = nodes[rank]->links.link_to(1 - rank).streams();
    return states.size() == streams &&
           std::all_of(states.begin(), states.end(), [](const auto& s) { return s.alive; });
  };
  const double deadline = now_s() + kPatience_s;
  while (!(whole(0) && whole(1)) && now_s() < deadline) {
    for (auto& node : nodes) node->poll(0.001);
  }
  return whole(0) && whole(1);
}

TEST(Redial, AStreamThatCameBackCarriesWhatTheOthersDid) {
  const auto store = memory_store();
  Nodes nodes = form_job(*store, 2, 0, 3, 0.01);
  for (int side : {0, 1}) {
    SCOPED_TRACE(side);
    nodes[side]->links.link_to(1 - side).cut(1, "cut by the test");
    ASSERT_TRUE(heal(nodes, 3));
    EXPECT_EQ(nodes[0]->links.link_to(1).streams()[1].reason, "");
  }
  EXPECT_GE(nodes[0]->links.link_to(1).revived_streams(), 2);
  // Only the one that came back is left.
  std::vector<char> data(3 << 20, 'x'), got(data.size());
  const Ticket ticket{&got, 0};
  nodes[0]->links.link_to(1).cut(0, "cut by the test");
  nodes[0]->links.link_to(1).cut(2, "cut by the test");
  nodes[1]->links.link_to(0).expect({.sequence = 1}, got.data(), got.size(), 0, ticket);
  nodes[0]->links.link_to(1).send(
      {.key = {.sequence = 1}, .data = data.data(), .bytes = data.size()});
  const double deadline = now_s() + kPatience_s;
  while (nodes[1]->links.events().done.empty() && now_s() < deadline) {
    for (auto& node : nodes) node->poll(0);
  }
  EXPECT_EQ(got, data);
  EXPECT_TRUE(nodes[0]->links.events().losses.empty());
  EXPECT_TRUE(heal(nodes, 3));
}

TEST(Redial, CanBeForbidden) {
  const auto store = memory_store();
  Nodes nodes = form_job(*store, 2, 0, 2, 0);
  nodes[1]->links.link_to(0).cut(1, "cut by the test");
  for (const double until = now_s() + 0.3; now_s() < until;) {
    for (auto& node : nodes) node->poll(0.001);
  }
  for (int rank : {0, 1}) EXPECT_FALSE(nodes[rank]->links.link_to(1 - rank).streams()[1].alive);
}

TEST(Redial, ALinkThatEndedIsNotDialled) {
  const auto store = memory_store();
  Nodes nodes = form_job(*store, 2, 0, 2, 0.001);
  for (int stream : {0, 1}) nodes[1]->links.link_to(0).cut(stream, "cut by the test");
  for (const double until = now_s() + 0.3; now_s() < until;) {
    for (auto& node : nodes) node->poll(0.001);
  }
  for (int rank : {0, 1}) {
    EXPECT_FALSE(nodes[rank]->links.link_to(1 - rank).alive());
    EXPECT_EQ(nodes[rank]->links.events().losses.size(), 1u);
  }
}

// Streams break all the time, on either side, and come back: nothing is lost or comes twice.
void exchange_while_streams_break(unsigned seed, MacUse mac) {
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  constexpr int kStreams = 3, kMessages = 75, kMessagesPerBreak = 5;
  const auto store = memory_store();
  // Pauses double with every break, so they begin with next to nothing.
  Nodes nodes = form_job(*store, 2, 0, kStreams, 1e-6, mac);
  std::mt19937 random(seed);
  std::vector<std::vector<std::byte>> sent[2], got[2];
  int owner_of[2] = {0, 1}, received[2] = {0, 0};
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < kMessages; ++i) {
      sent[rank].push_back(content(rank, i));
      got[rank].emplace_back(content(1 - rank, i).size());
    }
  }
  const auto take_events = [&] {
    for (int rank = 0; rank < 2; ++rank) {
      const Events events = std::exchange(nodes[rank]->links.events(), {});
      EXPECT_TRUE(events.losses.empty());
      for (const Ticket& ticket : events.done) received[rank] += ticket.owner == &owner_of[rank];
    }
  };
  int breaks = 0;
  for (int i = 0; i < kMessages; ++i) {
    for (int rank = 0; rank < 2; ++rank) {
      Link& link = nodes[rank]->links.link_to(1 - rank);
      link.use_streams(kStreams);
      const MessageKey key{.sequence = static_cast<uint64_t>(i)};
      link.send({.key = key,
                 .fingerprint = 7,
                 .data = sent[rank][i].data(),
                 .bytes = sent[rank][i].size()});
      const Ticket ticket{&owner_of[rank], i};
      received[rank] += link.expect(key, got[rank][i].data(), got[rank][i].size(), 7, ticket) ==
                        Expect::kComplete;
    }
    for (unsigned polls = random() % 20; polls > 0; --polls) nodes[random() % 2]->poll(0);
    take_events();
    if (i % kMessagesPerBreak != 0) continue;
    // Never the last one that either side knows of, which would be the end of the link.
    ASSERT_TRUE(heal(nodes, kStreams));
    const int side = static_cast<int>(random() % 2), spared = static_cast<int>(random() % 3);
    for (int stream = 0; stream < kStreams; ++stream) {
      if (stream == spared) continue;
      nodes[side]->links.link_to(1 - side).cut(stream, "cut by the test");
      ++breaks;
    }
  }
  const double deadline = now_s() + kPatience_s;
  while ((received[0] < kMessages || received[1] < kMessages) && now_s() < deadline) {
    for (auto& node : nodes) node->poll(0.001);
    take_events();
  }
  ASSERT_TRUE(heal(nodes, kStreams));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(received[rank], kMessages);
    for (int i = 0; i < kMessages; ++i) EXPECT_EQ(got[rank][i], sent[1 - rank][i]) << i;
    EXPECT_GE(nodes[rank]->links.link_to(1 - rank).revived_streams(), breaks);
  }
}

TEST(Redial, NothingIsLostOrDoubledWhenStreamsComeBack) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    exchange_while_streams_break(seed, seed % 2 == 0 ? MacUse::kOn : MacUse::kOff);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace stretto::comm
