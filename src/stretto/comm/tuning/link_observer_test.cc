#include "stretto/comm/tuning/link_observer.h"

#include <gtest/gtest.h>

#include <limits>

namespace stretto::comm {
namespace {

TEST(LinkObserver, LearnsWhatBytesAndRoundsCost) {
  LinkObserver observer;
  EXPECT_EQ(observer.costs(), LinkCosts{});
  for (int i = 0; i < 20; ++i) {
    const double slow = i % 5 == 0 ? 3.0 : 1.0;  // some operations wait for a slow rank
    observer.observe({.wire_bytes = 4 << 20, .wire_rounds = 2}, slow * (4 << 20) * 1e-9);
    observer.observe({.wire_bytes = 8, .wire_rounds = 2}, slow * 2 * 30e-6);
  }
  const LinkCosts costs = observer.costs();
  EXPECT_NEAR(costs[0], 1e-9, 1e-12);
  EXPECT_NEAR(costs[1], 30e-6, 1e-9);
  EXPECT_EQ(costs[2], 0) << "nothing was seen inside a host";

  const LinkModel usual, model = model_of(costs, usual);
  EXPECT_EQ(model.wire_byte_s, costs[0]);
  EXPECT_EQ(model.wire_latency_s, costs[1]);
  EXPECT_NEAR(model.wire_message_s, usual.wire_message_s / 2, 1e-9);
  EXPECT_EQ(model.local_byte_s, usual.local_byte_s);
  EXPECT_TRUE(differ(costs, costs_of(usual)));
  EXPECT_FALSE(differ(costs, costs_of(model)));
  EXPECT_FALSE(differ({}, costs_of(usual))) << "unknown costs change nothing";
}

TEST(LinkObserver, FollowsALinkThatChanges) {
  LinkObserver observer;
  for (const double byte_s : {1e-9, 4e-9})
    for (int i = 0; i < 40; ++i)
      observer.observe({.wire_bytes = 2 << 20, .wire_rounds = 1}, (2 << 20) * byte_s);
  EXPECT_NEAR(observer.costs()[0], 4e-9, 1e-12);
}

TEST(LinkObserver, IgnoresTimesThatSayNothing) {
  LinkObserver observer;
  for (const double seconds : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), 1e12})
    for (int i = 0; i < 20; ++i) observer.observe({.wire_bytes = 8, .wire_rounds = 1}, seconds);
  EXPECT_EQ(observer.costs(), LinkCosts{});
}

TEST(LinkObserver, TextGoesThereAndBack) {
  const LinkCosts costs = costs_of(LinkModel{});
  EXPECT_EQ(parse_link_costs(link_costs_text(costs)), costs);
  for (const char* text : {"", "wire", "wire 1 s/B x s, local 1 s/B 1 s",
                           "wire nan s/B 1 s, local 1 s/B 1 s", "wire -1 s/B 1 s, local 1 s/B 1 s"})
    EXPECT_FALSE(parse_link_costs(text)) << text;
}

}  // namespace
}  // namespace stretto::comm
