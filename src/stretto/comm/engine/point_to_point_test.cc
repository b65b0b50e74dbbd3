#include "stretto/comm/engine/point_to_point.h"

#include <gtest/gtest.h>

#include "stretto/comm/engine/state.h"

namespace stretto::comm {
namespace {

OpenOperation message(Kind kind, int peer, uint32_t tag = 0) {
  OpenOperation open;
  open.operation = {.kind = kind, .peer = peer, .tag = tag};
  return open;
}

TEST(PointToPoint, NumbersMessagesByRankAndTag) {
  PointToPoint state;
  const auto number_of = [&](Kind kind, int peer, uint32_t tag) {
    OpenOperation open = message(kind, peer, tag);
    if (kind == Kind::kSend) {
      number_send(state, open);
    } else {
      EXPECT_TRUE(match_receive(state, open));
    }
    return open.sequence;
  };
  for (const Kind kind : {Kind::kSend, Kind::kRecv}) {
    EXPECT_EQ(number_of(kind, 1, 0), 0u);
    EXPECT_EQ(number_of(kind, 1, 0), 1u);
    EXPECT_EQ(number_of(kind, 1, 7), 0u);
    EXPECT_EQ(number_of(kind, 2, 0), 0u);
  }
}

TEST(PointToPoint, AReceiveFromAnyRankTakesWhatHasArrived) {
  PointToPoint state;
  note_arrival(state, {2, 7}, 0);
  OpenOperation other_tag = message(Kind::kRecv, kAnyPeer, 8);
  EXPECT_FALSE(match_receive(state, other_tag));
  OpenOperation any = message(Kind::kRecv, kAnyPeer, 7);
  EXPECT_TRUE(match_receive(state, any));
  EXPECT_EQ(any.operation.peer, 2);
  EXPECT_EQ(any.sequence, 0u);
  EXPECT_TRUE(state.begun.empty());
}

TEST(PointToPoint, WaitingReceivesFromAnyRankTakeMessagesInTheirOrder) {
  PointToPoint state;
  OpenOperation first = message(Kind::kRecv, kAnyPeer), second = message(Kind::kRecv, kAnyPeer);
  EXPECT_FALSE(match_receive(state, first));
  EXPECT_FALSE(match_receive(state, second));
  EXPECT_EQ(match_any(state, {3, 0}), nullptr) << "nothing has arrived";
  note_arrival(state, {3, 0}, 0);
  EXPECT_EQ(match_any(state, {3, 0}), &first);
  EXPECT_EQ(first.operation.peer, 3);
  EXPECT_EQ(match_any(state, {3, 0}), nullptr) << "one message";
  note_arrival(state, {1, 0}, 0);
  EXPECT_EQ(match_any(state, {1, 0}), &second);
  EXPECT_EQ(second.operation.peer, 1);
  EXPECT_TRUE(state.any_receives.empty());
}

TEST(PointToPoint, AMessageThatAReceiveHasAskedForIsNotTakenByAnother) {
  PointToPoint state;
  OpenOperation from_one = message(Kind::kRecv, 1);
  EXPECT_TRUE(match_receive(state, from_one));
  note_arrival(state, {1, 0}, 0);
  OpenOperation any = message(Kind::kRecv, kAnyPeer);
  EXPECT_FALSE(match_receive(state, any));
  note_arrival(state, {1, 0}, 1);
  EXPECT_EQ(match_any(state, {1, 0}), &any);
  EXPECT_EQ(any.sequence, 1u);
}

}  // namespace
}  // namespace stretto::comm
