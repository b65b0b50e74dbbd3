#include "stretto/comm/tuning/link_observer.h"

#include <gtest/gtest.h>

#include <limits>

namespace stretto::comm {
namespace {

// Operations one after another, each after a pause.
class Job {
 public:
  void run(const Traffic& traffic, double seconds, double coding_s = 0) {
    now_s_ += 1;
    observer.observe(&traffic, now_s_, now_s_ + seconds, coding_s);
    now_s_ += seconds;
  }
  LinkObserver observer;

 private:
  double now_s_ = 0;
};

TEST(LinkObserver, LearnsWhatBytesAndRoundsCost) {
  Job job;
  EXPECT_EQ(job.observer.costs(), LinkCosts{});
  for (int i = 0; i < 20; ++i) {
    const double slow = i % 5 == 0 ? 3.0 : 1.0;  // some operations wait for a slow rank
    job.run({.wire_bytes = 4 << 20, .wire_rounds = 2}, slow * (4 << 20) * 1e-9);
    job.run({.wire_bytes = 8, .wire_rounds = 2}, slow * 2 * 30e-6);
  }
  const LinkCosts costs = job.observer.costs();
  EXPECT_NEAR(costs[kWireByte], 1e-9, 1e-12);
  EXPECT_NEAR(costs[kWireLatency], 30e-6, 1e-9);
  EXPECT_EQ(costs[kLocalByte], 0) << "nothing was seen inside a host";

  const LinkModel usual, model = model_of(costs, usual);
  EXPECT_EQ(model.wire_byte_s, costs[kWireByte]);
  EXPECT_EQ(model.wire_latency_s, costs[kWireLatency]);
  EXPECT_NEAR(model.wire_message_s, usual.wire_message_s / 2, 1e-9);
  EXPECT_EQ(model.local_byte_s, usual.local_byte_s);
  EXPECT_TRUE(differ(costs, costs_of(usual)));
  EXPECT_FALSE(differ(costs, costs_of(model)));
  EXPECT_FALSE(differ({}, costs_of(usual))) << "unknown costs change nothing";

  const LinkCosts before = costs_of(usual), all = first_known(costs, before);
  EXPECT_EQ(all[kWireByte], costs[kWireByte]);
  EXPECT_EQ(all[kLocalByte], before[kLocalByte]);
}

TEST(LinkObserver, FollowsALinkThatChanges) {
  Job job;
  for (const double byte_s : {1e-9, 4e-9})
    for (int i = 0; i < 40; ++i)
      job.run({.wire_bytes = 2 << 20, .wire_rounds = 1}, (2 << 20) * byte_s);
  EXPECT_NEAR(job.observer.costs()[kWireByte], 4e-9, 1e-12);
}

TEST(LinkObserver, IgnoresTimesThatSayNothing) {
  Job job;
  for (const double seconds : {0.0, -1.0, 1e12, std::numeric_limits<double>::quiet_NaN()})
    for (int i = 0; i < 20; ++i) job.run({.wire_bytes = 8, .wire_rounds = 1}, seconds);
  EXPECT_EQ(job.observer.costs(), LinkCosts{});
}

TEST(LinkObserver, CodingIsNotTheWire) {
  Job job;
  for (int i = 0; i < 20; ++i)
    job.run({.wire_bytes = 1 << 20, .wire_rounds = 1}, (1 << 20) * 2e-9 + 1e-3, 1e-3);
  EXPECT_NEAR(job.observer.costs()[kWireByte], 2e-9, 1e-12);
  Job busy;
  for (int i = 0; i < 20; ++i) busy.run({.wire_bytes = 1 << 20, .wire_rounds = 1}, 4e-3, 9e-3);
  EXPECT_NEAR(busy.observer.costs()[kWireByte], 2e-3 / (1 << 20), 1e-12) << "half at least";
}

TEST(LinkObserver, OperationsThatAreMostlyCodingOnlyLowerAKnownCost) {
  Job job;
  const auto cost_after = [&](double byte_s, double coding_s) {
    const double bytes = 1 << 20;
    for (int i = 0; i < 40; ++i)
      job.run({.wire_bytes = bytes, .wire_rounds = 1}, bytes * byte_s + coding_s, coding_s);
    return job.observer.costs()[kWireByte];
  };
  EXPECT_NEAR(cost_after(2e-9, 0), 2e-9, 1e-12);
  EXPECT_NEAR(cost_after(4e-9, 1e-3), 2e-9, 1e-12) << "a fifth of the time is coding";
  EXPECT_NEAR(cost_after(1e-9, 1e-3), 1e-9, 1e-12);
  EXPECT_NEAR(cost_after(4e-9, 1e-4), 4e-9, 1e-12) << "a fiftieth is";
}

// Small operations that are fused end together: all but the first seem to take no time.
TEST(LinkObserver, OperationsThatOverlapCountTheirBytesOnceAndHaveNoLatency) {
  LinkObserver observer;
  const Traffic large{.wire_bytes = 1 << 20, .wire_rounds = 1};
  const Traffic small{.wire_bytes = 8, .wire_rounds = 1};
  for (int i = 0; i < 20; ++i) {
    observer.observe(&large, i, i + 2e-3);
    observer.observe(&large, i, i + 4e-3);  // its bytes came while the first was under way
    observer.observe(&small, i + 0.5, i + 0.5 + 50e-6);
    observer.observe(&small, i + 0.5, i + 0.5 + 51e-6);
  }
  EXPECT_NEAR(observer.costs()[kWireByte], 2e-3 / (1 << 20), 1e-12);
  EXPECT_NEAR(observer.costs()[kWireLatency], 50e-6, 1e-9);
}

TEST(LinkObserver, AFasterLinkHasAShorterLatencyWhileNobodyKnows) {
  const LinkModel usual;
  const auto latency = [&](double byte_s, double known) {
    return model_of({byte_s, known, 0, 0}, usual).wire_latency_s;
  };
  EXPECT_EQ(latency(0, 0), usual.wire_latency_s);
  EXPECT_EQ(latency(80e-9, 0), usual.wire_latency_s) << "not longer";
  EXPECT_LT(latency(0.25e-9, 0), 20e-6);
  EXPECT_EQ(latency(0.25e-9, 33e-6), 33e-6);
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
