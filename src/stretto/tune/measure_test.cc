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

}  // namespace
}  // namespace stretto::tune
