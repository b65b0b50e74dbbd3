#include "stretto/cluster/fit.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

#include "stretto/base/error.h"
#include "stretto/cluster/random.h"
#include "stretto/cluster/simulate_testing.h"

namespace stretto::cluster {
namespace {

constexpr int kNodes = 20, kMostReserve = 4;
constexpr uint64_t kSeeds = 4;

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

Case make_case(uint64_t seed, Mix mix, Preemption preemption) {
  Site site = split_site(kNodes, 8, kNodes / 2, false);
  add_urgent(site, 0, false, preemption);
  site.reserve.queues = {"urgent"};
  return {site, busy_trace(seed, 600, mix), {.seed = seed, .urgent = 0.05}};
}

double score_of(const Case& given, const FitSetting& setting) {
  SimulateOptions options = given.options;
  if (setting.soft) options.policy = "soft-groups";
  return fit_score(simulate(resized(given.site, setting), given.trace, options));
}

// The best of every size of the first group and of the reserve, with walls and without.
FitTrial best_of_grid(const Case& given, int64_t& runs) {
  FitTrial best{.score_s = 1e300};
  for (const bool soft : {false, true}) {
    for (int reserve = 0; reserve <= kMostReserve; ++reserve) {
      for (int single = 0; single + reserve <= kNodes; ++single) {
        const FitSetting setting{.group_nodes = {single, kNodes - single - reserve},
                                 .reserve_nodes = reserve,
                                 .soft = soft};
        const double score = score_of(given, setting);
        if (score < best.score_s) best = {setting, score};
        ++runs;
      }
    }
  }
  return best;
}

// Between neighbouring sizes without walls, the mean of the waits changes by chance, so the least
// of a grid is found for certain by all of its runs only. What can be asked of a tenth of them: to
// find it in two cases of five, to be near it in all, and to find a setting that is as good for
// other jobs of the same kind, which is what somebody who resizes groups will have.
TEST(Fit, IsNearTheBestOfAGridWithATenthOfTheRuns) {
  int cases = 0, found = 0;
  double ours_elsewhere = 0, grid_elsewhere = 0;
  const std::pair<Mix, Preemption> kinds[] = {{Mix::kSmall, Preemption::kOff},
                                              {Mix::kUneven, Preemption::kOff},
                                              {Mix::kLarge, Preemption::kOff},
                                              {Mix::kSmall, Preemption::kRequeue}};
  for (const auto& [mix, preemption] : kinds) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const Case given = make_case(seed, mix, preemption);
      int64_t runs = 0;
      const FitTrial grid = best_of_grid(given, runs);
      const Fit fit = fit_site(given.site, given.trace, given.options);
      const std::string where = fmt::format("seed {} of mix {}", seed, static_cast<int>(mix));
      EXPECT_EQ(fit.grid_size, runs) << where;
      EXPECT_LE(static_cast<int64_t>(fit.tried.size()) * 10, runs) << where;
      const double ours = fit_score(fit.simulation_best);
      EXPECT_LE(ours, 1.12 * grid.score_s) << where;
      EXPECT_LE(ours, fit_score(fit.simulation_before)) << where;
      EXPECT_FALSE(fit.changes.empty());
      ++cases;
      found += ours <= grid.score_s;
      for (uint64_t other = 1; other <= kSeeds; ++other) {
        if (other == seed) continue;
        const Case others = make_case(other, mix, preemption);
        ours_elsewhere += score_of(others, fit.best);
        grid_elsewhere += score_of(others, grid.setting);
      }
    }
  }
  EXPECT_LE(ours_elsewhere, 1.02 * grid_elsewhere);
  EXPECT_GE(found * 5, cases * 2) << found << " of " << cases;
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
