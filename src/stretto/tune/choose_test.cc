#include "stretto/tune/choose.h"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

namespace stretto::tune {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Choose, KeepsThePreferredOneInANearTie) {
  const std::vector<double> costs{1.02, 1.0, 2.0};
  EXPECT_EQ(choose(costs, 0), 0);
  EXPECT_EQ(choose(costs, 2), 1);
  EXPECT_EQ(choose(costs), 1);
  EXPECT_EQ(choose(costs, 0, 0.01), 1);
}

TEST(Choose, TakesTheFirstOfEqualsAndNeverWhatDoesNotFit) {
  EXPECT_EQ(choose(std::vector<double>{kInfinity, 2, 2}), 1);
  EXPECT_EQ(choose(std::vector<double>{kInfinity, 2}, 0), 1);
  EXPECT_EQ(choose(std::vector<double>{kInfinity, kInfinity}), -1);
  EXPECT_EQ(choose({}), -1);
}

TEST(Choose, ChecksTheWinnerAndThenTheNext) {
  const std::vector<double> costs{3, 1, 2};
  std::vector<int> asked;
  const auto check = [&](int passes) {
    return [&asked, passes](int candidate, std::span<const double> rest) {
      for (const int before : asked) EXPECT_EQ(rest[static_cast<size_t>(before)], kInfinity);
      asked.push_back(candidate);
      return candidate == passes;
    };
  };
  EXPECT_EQ(choose_checked(costs, check(1)), 1);
  EXPECT_EQ(asked, std::vector<int>{1}) << "nothing is checked for nothing";
  asked.clear();
  EXPECT_EQ(choose_checked(costs, check(0)), 0);
  EXPECT_EQ(asked, (std::vector<int>{1, 2, 0}));
  asked.clear();
  EXPECT_EQ(choose_checked(costs, check(7)), -1);
  // A preferred candidate that fails loses its privilege.
  asked.clear();
  EXPECT_EQ(choose_checked(std::vector<double>{1.01, 1.0}, check(1), 0), 1);
  EXPECT_EQ(asked, (std::vector<int>{0, 1}));
}

TEST(Shortlist, ListsWhatIsNotHopeless) {
  EXPECT_EQ(shortlist(std::vector<double>{2.6, 1, kInfinity, 2.5}, 2.5), (std::vector<int>{1, 3}));
  EXPECT_TRUE(shortlist(std::vector<double>{kInfinity}, 2).empty());
  EXPECT_TRUE(shortlist({}, 2).empty());
}

TEST(Budget, LeavesWhatATaskDoesNotNeedToTheNext) {
  Budget budget(0.3, {1, 1, 1});
  EXPECT_NEAR(budget.next(), 0.1, 0.02);
  EXPECT_NEAR(budget.next(), 0.15, 0.03) << "the first took nothing";
  std::this_thread::sleep_for(std::chrono::milliseconds(320));
  EXPECT_EQ(budget.next(), 0);
}

TEST(Budget, IsSharedByWeight) {
  Budget budget(8, {6, 1, 1});
  EXPECT_NEAR(budget.next(), 6, 0.1);
  EXPECT_NEAR(budget.next(), 4, 0.1) << "the first took nothing";
  EXPECT_NEAR(budget.next(), 8, 0.1);
  EXPECT_EQ(budget.next(), 0);
}

TEST(Closeness, FallsWithTheDistanceFromTheBest) {
  EXPECT_EQ(closeness(1), 1);
  EXPECT_EQ(closeness(0.9), 1);
  EXPECT_NEAR(closeness(1.2), 0.5, 0.05);
  EXPECT_LT(closeness(2), closeness(1.5) / 2);
  EXPECT_EQ(closeness(kInfinity), 0);
}

}  // namespace
}  // namespace stretto::tune
