// What other ranks send to a group that is no more takes no memory and stops nobody.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "stretto/comm/engine/engine_testing.h"
#include "stretto/comm/engine/point_to_point.h"
#include "stretto/comm/engine/state.h"

namespace stretto::comm {
namespace {

using testing::expect_no_errors;
using testing::run_ranks;

constexpr int64_t kFloats = 256 << 10;  // 1 MB

Options small_eager_limit(int rank) {
  Options options = testing::tcp(rank);
  options.eager_limit_bytes = 4 << 20;
  return options;
}

// Sends to rank 1, which does not receive it.
void send(Engine& engine, Group group, const std::vector<float>& data) {
  engine.wait(engine.submit(group, {.kind = Kind::kSend,
                                    .peer = 1,
                                    .count = std::ssize(data),
                                    .input = data.data(),
                                    .timeout_s = 30}));
}

void barrier(Engine& engine) { engine.wait(engine.submit(kWorld, {.kind = Kind::kBarrier})); }

// Messages that nobody had received filled the eager limit, and the next send waited for ever.
TEST(EngineGroups, ARemovedGroupsMessagesMakeRoom) {
  for (const bool early : {true, false}) {  // they arrive before the group is removed, or after it
    expect_no_errors(run_ranks(2, small_eager_limit, [&](Engine& engine) {
      constexpr int kRounds = 20;
      const std::vector<float> data(kFloats, 1.0f);
      for (int round = 0; round < kRounds; ++round) {
        const Group group = engine.add_group("g", {0, 1});
        if (engine.membership().rank == 0 && early) send(engine, group, data);
        if (engine.membership().rank == 1 && !early) engine.remove_group(group);
        barrier(engine);
        if (engine.membership().rank == 0 && !early) send(engine, group, data);
        if (engine.membership().rank == 0 || early) engine.remove_group(group);
      }
      barrier(engine);
      if (engine.membership().rank == 0) return;
      EXPECT_EQ(engine.statistics().dropped_messages, kRounds);
    }));
  }
}

// One that is announced first is not answered; neither is what comes after it held up.
TEST(EngineGroups, AnAnnouncedMessageOfARemovedGroupIsForgotten) {
  const auto errors = run_ranks(2, small_eager_limit, [](Engine& engine) {
    std::vector<float> data(kFloats, 1.0f);
    const Group group = engine.add_group("g", {0, 1});
    if (engine.membership().rank == 1) engine.remove_group(group);
    barrier(engine);
    Handle sent = 0;
    if (engine.membership().rank == 0)
      sent = engine.submit(group, {.kind = Kind::kSend,
                                   .peer = 1,
                                   .count = kFloats,
                                   .input = data.data(),
                                   .timeout_s = 5,
                                   .rendezvous = true});
    for (int i = 0; i < 10; ++i) barrier(engine);
    if (engine.membership().rank == 0) {
      engine.wait(sent);
      return;
    }
    while (engine.statistics().dropped_messages == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    engine.wait(
        engine.submit(kWorld, {.kind = Kind::kRecv, .peer = 0, .count = 1, .output = data.data()}));
  });
  EXPECT_NE(errors[0].find("send of 262144 float32 is not done after 5 s"), errors[0].npos)
      << errors[0];
}

TEST(EngineGroups, WhatHasBegunToArriveIsForgottenWhenItIsReceived) {
  PointToPoint state;
  for (uint32_t tag = 0; tag < 100; ++tag) {
    const PointToPoint::From from{1, tag};
    note_arrival(state, from, 0);
    note_arrival(state, from, 1);
    EXPECT_EQ(match_any(state, from), nullptr);
    OpenOperation any, next, third;
    any.operation = next.operation =
        third.operation = {.kind = Kind::kRecv, .peer = kAnyPeer, .tag = tag};
    next.operation.peer = 1;
    EXPECT_TRUE(match_receive(state, any));
    EXPECT_EQ(any.operation.peer, 1);
    EXPECT_TRUE(match_receive(state, next));
    EXPECT_EQ(next.sequence, 1u);
    EXPECT_TRUE(state.begun.empty());
    EXPECT_FALSE(match_receive(state, third));
    note_arrival(state, from, 1);  // had been asked for meanwhile
    EXPECT_EQ(match_any(state, from), nullptr);
    note_arrival(state, from, 2);
    EXPECT_EQ(match_any(state, from), &third);
    EXPECT_EQ(third.sequence, 2u);
    EXPECT_TRUE(state.begun.empty());
  }
}

}  // namespace
}  // namespace stretto::comm
