#include "stretto/tune/measure.h"

#include <gtest/gtest.h>

#include <thread>

#include "stretto/base/clock.h"

namespace stretto::tune {
namespace {

TEST(Measure, RunsEveryTrialAndRanksThem) {
  int fast = 0, slow = 0;
  const std::vector<Trial> trials{{"slow",
                                   [&] {
                                     ++slow;
                                     std::this_thread::sleep_for(std::chrono::milliseconds(8));
                                   }},
                                  {"fast", [&] {
                                     ++fast;
                                     std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                   }}};
  const auto seconds = measure(trials, {.budget_s = 0.02, .min_rounds = 2});
  EXPECT_GT(seconds[0], seconds[1]);
  EXPECT_GE(slow, 2);
  EXPECT_GE(fast, 4);
}

TEST(Measure, EndsBeforeItsBudgetOnceThereAreEnoughRounds) {
  int runs = 0;
  const std::vector<Trial> trials{{"short", [&] { ++runs; }}};
  constexpr double kForEver_s = 1e9;
  measure(trials, {.budget_s = kForEver_s, .enough_rounds = 50, .enough_s = 0});
  EXPECT_EQ(runs, 2 * 50);  // each round refills the caches by a run of its own
  const double start = now_s();
  measure(trials, {.budget_s = kForEver_s, .enough_rounds = 1, .enough_s = 0.02});
  EXPECT_GE(now_s() - start, 0.02);
}

TEST(Measure, ARaceLeavesRoundsToTheFastest) {
  const auto counted = [](int* runs, int ms) {
    return Trial{"",
                 [=] {
                   std::this_thread::sleep_for(std::chrono::milliseconds(ms));
                   ++*runs;
                 },
                 [] {}};
  };
  // 2.5 times as slow leaves after the second round (limit 2), or a few rounds later where other
  // work on the machine makes the fast one sleep for longer. Both have left long before 100 rounds.
  int fast = 0, slow = 0;
  const std::vector<Trial> trials{counted(&fast, 2), counted(&slow, 5)};
  measure(trials, {.budget_s = 1e9, .race = true});
  EXPECT_LT(slow, 10);
  EXPECT_GE(fast, 10) << "alone, ten rounds are enough";
  EXPECT_LT(fast, 100);
  fast = slow = 0;
  measure(trials, {.budget_s = 0, .min_rounds = 12, .hopeless = 1e9});
  EXPECT_EQ(fast, 12);
  EXPECT_EQ(slow, 12) << "without a race, all have all rounds";
}

TEST(Measure, AnInterruptedRunDoesNotDropTheFastest) {
  const auto sleep_ms = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  for (const bool race : {false, true}) {
    // Beside other work, further runs are interrupted in some attempts, but not in all.
    bool right = false;
    for (int attempt = 0; attempt < 5 && !right; ++attempt) {
      int runs = 0;
      const std::vector<Trial> trials{
          {"interrupted", [&] { sleep_ms(runs++ == 0 ? 20 : 1); }, [] {}},  // 20: above 3 x 4
          {"steady", [&] { sleep_ms(4); }, [] {}}};
      const auto seconds = measure(trials, {.budget_s = 0.1, .race = race});
      right = seconds[0] < seconds[1];
    }
    EXPECT_TRUE(right);
  }
}

TEST(Measure, ATrialThatIsTooSlowForAnInterruptionIsDroppedAtOnce) {
  int runs = 0;
  const std::vector<Trial> trials{{"slow",
                                   [&] {
                                     ++runs;
                                     std::this_thread::sleep_for(std::chrono::milliseconds(150));
                                   },
                                   [] {}},
                                  {"fast", [] {}, [] {}}};
  measure(trials, {.budget_s = 0.01});
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace stretto::tune
