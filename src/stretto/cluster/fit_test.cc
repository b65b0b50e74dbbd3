#include "stretto/cluster/fit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/cluster/random.h"
#include "stretto/cluster/simulate_testing.h"

namespace stretto::cluster {
namespace {

constexpr int kNodes = 20, kMostReserve = 4;

// Jobs of which many are small, of unlike times, and mostly large ones.
enum class Mix { kSmall, kUneven, kLarge };

Trace busy_trace(uint64_t seed, int count, Mix mix = Mix::kSmall) {
  Random random(seed + 100 * static_cast<uint64_t>(mix));
  std::vector<TestJob> jobs;
  double time = 0;
  for (int i = 0; i < count; ++i) {
    constexpr int kSmall[] = {1, 1, 1, 1, 1, 1, 2, 4, 8, 16};
    constexpr int kLarge[] = {1, 2, 4, 4, 8, 8, 8, 16, 16, 1};
    constexpr int kGaps[] = {12, 16, 24};
    time += static_cast<double>(random.below(kGaps[static_cast<int>(mix)]));
    const int chips = (mix == Mix::kLarge ? kLarge : kSmall)[random.below(10)];
    const double longer = mix == Mix::kUneven && random.below(10) == 0 ? 4 : 1;
    jobs.push_back({time, longer * static_cast<double>(20 + random.below(400)), chips, ""});
  }
  return make_trace(jobs);
}

struct Case {
  Site site;
  Trace trace;
  SimulateOptions options;
};

// A site that could be read from a file: a reserve is lent only where preemption is on.
Case make_case(uint64_t seed, Mix mix, Preemption preemption) {
  Site site = split_site(kNodes, 8, kNodes / 2, false);
  add_urgent(site, 0, false, preemption);
  site.reserve.queues = {"urgent"};
  site.reserve.lend = preemption != Preemption::kOff;
  return {site, busy_trace(seed, 600, mix), {.seed = seed, .urgent = 0.05}};
}

// The least score of every size of the first group and of the reserve, with walls and without. With
// preemption there are no groups without nodes, and only the jobs of one chip may use both.
double best_of_grid(const Case& given, int64_t& runs) {
  const bool preempts = given.site.preemption.mode != Preemption::kOff;
  const int least = preempts ? 1 : 0;
  double best = 1e300;
  for (const bool soft : {false, true}) {
    for (int reserve = 0; reserve <= kMostReserve; ++reserve) {
      for (int single = least; single + reserve <= kNodes - least; ++single) {
        Site site = resized(given.site, {.group_nodes = {single, kNodes - single - reserve},
                                         .reserve_nodes = reserve});
        if (soft) site.groups[0].spill = {"multi"};
        if (soft && !preempts) site.groups[1].spill = {"single"};
        best = std::min(best, fit_score(simulate(site, given.trace, given.options)));
        ++runs;
      }
    }
  }
  return best;
}

// None of these seeds served to choose the numbers of the search: those were 5 to 10.
TEST(Fit, FindsTheBestOfAGridAtATenthOfItsCost) {
  const std::pair<Mix, Preemption> kinds[] = {{Mix::kSmall, Preemption::kOff},
                                              {Mix::kUneven, Preemption::kOff},
                                              {Mix::kLarge, Preemption::kOff},
                                              {Mix::kSmall, Preemption::kRequeue}};
  for (const auto& [mix, preemption] : kinds) {
    for (const uint64_t seed : {1, 2, 3, 4, 11, 12, 13, 14, 15, 16}) {
      const Case given = make_case(seed, mix, preemption);
      int64_t runs = 0;
      const double grid = best_of_grid(given, runs);
      const Fit fit = fit_site(given.site, given.trace, given.options);
      const std::string where = fmt::format("seed {} of mix {}", seed, static_cast<int>(mix));
      EXPECT_EQ(fit.grid_size, runs) << where;
      EXPECT_LE(fit.runs * 10, static_cast<double>(runs)) << where;
      double parts = 0;
      for (const FitTrial& trial : fit.tried) parts += trial.part;
      EXPECT_NEAR(fit.runs, parts, 1e-9) << where;
      EXPECT_LE(fit_score(fit.simulation_best), grid) << where;
      EXPECT_FALSE(fit.changes.empty());
      // The site that it proposes does what the fit says.
      EXPECT_EQ(fit_score(simulate(fit.site, given.trace, given.options)),
                fit_score(fit.simulation_best));
    }
  }
}

TEST(Fit, GroupsOfASiteThatPreemptsSpillIntoThoseOfLargerJobsOnly) {
  Site site = split_site(4, 8, 2, true);
  const FitSetting soft{.group_nodes = {1, 3}, .soft = true};
  const Site both = resized(site, soft);
  EXPECT_EQ(both.groups[0].spill, std::vector<std::string>{"multi"});
  EXPECT_EQ(both.groups[1].spill, std::vector<std::string>{"single"});
  site.preemption.mode = Preemption::kRequeue;
  const Site one = resized(site, soft);
  EXPECT_EQ(one.groups[0].spill, std::vector<std::string>{"multi"});
  EXPECT_TRUE(one.groups[1].spill.empty());
  const Fit fit = fit_site(site, busy_trace(1, 100), {});
  for (const FitTrial& trial : fit.tried) EXPECT_GE(std::ranges::min(trial.setting.group_nodes), 1);
}

TEST(Fit, ASiteWithOneGroupIsSimulatedAsItIs) {
  const Trace trace = busy_trace(1, 100);
  const Fit fit = fit_site(plain_site(4, 16), trace, {});
  EXPECT_EQ(fit.simulation_before.refused, 0);
  EXPECT_EQ(fit.tried.front().score_s, fit_score(simulate(plain_site(4, 16), trace)));
}

TEST(Simulate, StopsWhereItIsTold) {
  const Trace trace = busy_trace(1, 200);
  std::vector<SoFar> course;
  SimulateOptions options{.go_on = [&course](const SoFar& so_far) {
    course.push_back(so_far);
    return true;
  }};
  const Simulation whole = simulate(plain_site(6, 16), trace, options);
  EXPECT_FALSE(whole.stopped);
  ASSERT_GE(course.size(), 50u);
  for (size_t i = 1; i < course.size(); ++i) {
    EXPECT_GT(course[i].part, course[i - 1].part);
    EXPECT_GE(course[i].wait_s, course[i - 1].wait_s);
  }
  EXPECT_GT(course.back().wait_s, 0);
  EXPECT_LE(course.back().wait_s, fit_score(whole) * (1 + 1e-9));
  EXPECT_GE(course.back().wait_s, fit_score(whole) * 0.9);
  options.go_on = [](const SoFar& so_far) { return so_far.part < 0.5; };
  const Simulation half = simulate(plain_site(6, 16), trace, options);
  EXPECT_TRUE(half.stopped);
  EXPECT_LT(half.finished, whole.finished);
}

TEST(Fit, ASiteWithOneGroupGetsTwo) {
  const Site split = resized(plain_site(4, 8), {.group_nodes = {1, 3}});
  ASSERT_EQ(split.groups.size(), 2u);
  EXPECT_EQ(split.groups[0].nodes, std::vector<std::string>{"n0"});
  EXPECT_EQ(split.groups[1].nodes.size(), 3u);
  EXPECT_THROW(resized(plain_site(4, 8), {.group_nodes = {1, 2}}), InvalidArgument);
}

TEST(Fit, RefusesAPolicyThatSaysHowGroupsAreUsed) {
  const Trace trace = busy_trace(1, 10);
  EXPECT_THROW(fit_site(plain_site(4, 8), trace, {.policy = "hard-groups"}), InvalidArgument);
  EXPECT_THROW(fit_site(plain_site(4, 8), trace, {.departures = false}), InvalidArgument);
}

}  // namespace
}  // namespace stretto::cluster
