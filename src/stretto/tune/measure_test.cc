#include "stretto/tune/measure.h"

#include <gtest/gtest.h>

#include <thread>

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

}  // namespace
}  // namespace stretto::tune
