#include "stretto/cluster/fit.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/cluster/random.h"
#include "stretto/cluster/simulate_testing.h"

namespace stretto::cluster {
namespace {

Trace busy_trace(uint64_t seed, int count) {
  Random random(seed);
  std::vector<TestJob> jobs;
  double time = 0;
  for (int i = 0; i < count; ++i) {
    time += static_cast<double>(random.below(12));
    constexpr int kChips[] = {1, 1, 1, 1, 1, 1, 2, 4, 8, 16};
    jobs.push_back(
        {time, static_cast<double>(20 + random.below(400)), kChips[random.below(10)], ""});
  }
  return make_trace(jobs);
}

// Every size of the first group and of the reserve of a site, with walls or without.
double best_of_grid(const Site& site, const Trace& trace, SimulateOptions options, bool soft,
                    int64_t& runs) {
  double best = 1e300;
  if (soft) options.policy = "soft-groups";
  for (int reserve = 0; reserve <= 4; ++reserve) {
    for (int single = 0; single + reserve <= 20; ++single) {
      const FitSetting setting{.group_nodes = {single, 20 - single - reserve},
                               .reserve_nodes = reserve};
      best = std::min(best, fit_score(simulate(resized(site, setting), trace, options)));
      ++runs;
    }
  }
  return best;
}

TEST(Fit, IsAsGoodAsTheBestOfAGridWithATenthOfTheRuns) {
  for (const uint64_t seed : {1, 2, 3, 4}) {
    Site site = split_site(20, 8, 10, false);
    add_urgent(site, 0, false, Preemption::kOff);
    site.reserve.queues = {"urgent"};
    const Trace trace = busy_trace(seed, 600);
    const SimulateOptions options{.seed = seed, .urgent = 0.05};
    int64_t runs = 0;
    const double walls = best_of_grid(site, trace, options, false, runs);
    const double soft = best_of_grid(site, trace, options, true, runs);
    const Fit fit = fit_site(site, trace, options);
    EXPECT_EQ(fit.grid_size, runs);
    EXPECT_LE(static_cast<int64_t>(fit.tried.size()) * 10, runs) << "seed " << seed;
    EXPECT_LE(fit_score(fit.simulation_best), walls) << "seed " << seed;
    // Without walls the sizes matter little: from one to the next the mean of the waits changes by
    // chance, and finding the least would take all of the grid.
    EXPECT_LE(fit_score(fit.simulation_best), 1.1 * soft) << "seed " << seed;
    EXPECT_LE(fit_score(fit.simulation_best), fit_score(fit.simulation_before));
    EXPECT_FALSE(fit.changes.empty());
  }
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
