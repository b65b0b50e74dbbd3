#include "stretto/comm/link/stream_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

namespace stretto::comm {
namespace {

using Rate = std::function<double(int streams)>;  // bytes per second

// A link that is polled every millisecond or so.
struct Simulation {
  explicit Simulation(int start = 2, int most = 8) : choice(start, most) {}

  // Moves so many bytes at once; returns the seconds that took.
  double operation(int64_t bytes, const Rate& rate) {
    std::uniform_real_distribution<double> pause_s(0.5e-3, 1.5e-3);
    const double began = now;
    for (double moved = 0; moved < static_cast<double>(bytes);) {
      look(true);
      const double step_s = pause_s(random);
      now += step_s;
      moved += rate(choice.count()) * step_s;
      acknowledged += static_cast<int64_t>(rate(choice.count()) * step_s);
    }
    look(false);
    return now - began;
  }

  void look(bool pressed) {
    const int before = choice.count();
    const bool changed = choice.observe(pressed, acknowledged, now);
    EXPECT_EQ(changed, choice.count() != before);
    changes += changed;
  }

  StreamChoice choice;
  std::mt19937 random{7};
  double now = 100;
  int64_t acknowledged = 0;
  int changes = 0;
};

constexpr double kMbit = 1e6 / 8;
constexpr int64_t kLarge = 32 << 20;

Rate capped(double flow_mbit, double wire_mbit) {
  return [=](int streams) { return std::min(streams * flow_mbit, wire_mbit) * kMbit; };
}

TEST(StreamChoice, FindsAsManyStreamsAsACapPerFlowNeeds) {
  Simulation link;
  for (int i = 0; i < 3; ++i) link.operation(kLarge, capped(250, 1000));
  EXPECT_EQ(link.choice.count(), 4);
  Simulation slow;
  for (int i = 0; i < 5; ++i) slow.operation(kLarge, capped(50, 1000));
  EXPECT_EQ(slow.choice.count(), 8);
}

TEST(StreamChoice, TriesMoreAndMoreRarelyWhereTheWireIsTheLimit) {
  Simulation link;
  const auto until = [&](double end_s) {
    while (link.now < 100 + end_s) link.operation(kLarge, capped(5000, 1000));
    EXPECT_EQ(link.choice.count(), 2);
    return link.changes / 2;  // to four and back
  };
  EXPECT_EQ(until(2), 1);
  EXPECT_EQ(until(9), 2);
  EXPECT_EQ(until(40), 3);
  EXPECT_EQ(until(100), 4);
  EXPECT_EQ(until(160), 5) << "once a minute";
  EXPECT_EQ(until(220), 6);
}

TEST(StreamChoice, NoticesThatACapHasComeAndGone) {
  Simulation link;
  for (int i = 0; i < 3; ++i) link.operation(kLarge, capped(5000, 1000));
  ASSERT_EQ(link.choice.count(), 2);
  link.now += 61;
  for (int i = 0; i < 3; ++i) link.operation(kLarge, capped(250, 1000));
  EXPECT_EQ(link.choice.count(), 4);
  link.now += 61;
  for (int i = 0; i < 3; ++i) link.operation(kLarge, capped(5000, 1000));
  EXPECT_EQ(link.choice.count(), 2);
}

// What is measured is the time in which something was under way, however short the operations.
TEST(StreamChoice, PausesBetweenOperationsDoNotCount) {
  Simulation link;
  for (int i = 0; i < 40; ++i) {
    link.operation(4 << 20, capped(250, 1000));
    link.now += 0.2;
  }
  EXPECT_EQ(link.choice.count(), 4);
}

// Rates that differ by a tenth from one millisecond to the next, and by as much from window to
// window, must not look like a gain.
TEST(StreamChoice, IsNotTakenInByNoise) {
  int raised = 0;
  for (unsigned seed = 0; seed < 50; ++seed) {
    Simulation link;
    link.random.seed(seed);
    std::mt19937 moods(seed);
    double mood = 1;
    for (int i = 0; i < 3; ++i) {
      mood = std::uniform_real_distribution<double>(0.9, 1.1)(moods);
      link.operation(kLarge, [&](int) {
        return 1000 * kMbit * mood * std::uniform_real_distribution<double>(0.9, 1.1)(moods);
      });
    }
    raised += link.choice.count() != 2;
  }
  EXPECT_EQ(raised, 0) << "of 50";
}

// The second time that four streams are tried, the processor is busy with something else.
TEST(StreamChoice, ABusyMomentDoesNotEndATrialThatWon) {
  Simulation link;
  const auto rate = capped(250, 1000);
  for (int i = 0; i < 4; ++i) {
    link.operation(kLarge, [&](int streams) {
      return link.changes == 3 ? 0.55 * rate(streams) : rate(streams);
    });
  }
  EXPECT_GT(link.changes, 3);
  EXPECT_EQ(link.choice.count(), 4);
}

// The same already the first time, which then decides.
TEST(StreamChoice, ABusyMomentThatEndsATrialCostsTwoSeconds) {
  Simulation link;
  const auto rate = capped(250, 1000);
  link.operation(kLarge,
                 [&](int streams) { return streams == 4 ? 0.55 * rate(4) : rate(streams); });
  EXPECT_EQ(link.choice.count(), 2);
  const double lost_s = link.now;
  while (link.choice.count() == 2 && link.now < lost_s + 10) link.operation(kLarge, rate);
  for (int i = 0; i < 2; ++i) link.operation(kLarge, rate);
  EXPECT_EQ(link.choice.count(), 4);
  EXPECT_LT(link.now - lost_s, 4);
}

TEST(StreamChoice, OneStreamIsEnoughWhereProcessorsAreTheLimit) {
  Simulation link(1, 8);
  for (int i = 0; i < 100; ++i)
    link.operation(kLarge, [](int streams) { return 20000 * kMbit / (1 + 0.1 * streams); });
  EXPECT_EQ(link.choice.count(), 1);
  link.now += 61;
  for (int i = 0; i < 10; ++i) link.operation(kLarge, capped(250, 1000));
  EXPECT_EQ(link.choice.count(), 4) << "as connections are capped now";
}

// A tuner tries a unit that is twice as fast while four streams are tried.
TEST(StreamChoice, RatesWithOtherSettingsAreNotCompared) {
  for (const bool told : {false, true}) {
    Simulation link;
    double factor = 1;
    for (int i = 0; i < 60; ++i) {
      link.operation(4 << 20, [&](int) { return factor * 1000 * kMbit; });
      const double before = factor;
      factor = link.choice.count() == 4 ? 2 : 1;
      if (told && factor != before && link.choice.begin_round_again()) ++link.changes;
    }
    EXPECT_EQ(link.choice.count() == 2, told);
  }
}

TEST(StreamChoice, KeepsToAFixedNumber) {
  Simulation link(4, 4);
  link.operation(kLarge, capped(250, 1000));
  EXPECT_EQ(link.choice.count(), 4);
  EXPECT_EQ(link.changes, 0);
}

}  // namespace
}  // namespace stretto::comm
