// Small cases whose answers can be worked out by hand, for each part of a policy.
#include <gtest/gtest.h>

#include <vector>

#include "stretto/base/error.h"
#include "stretto/cluster/policy/policy.h"
#include "stretto/cluster/simulate_testing.h"

namespace stretto::cluster {
namespace {

std::vector<double> starts(const Site& site, const Trace& trace, SimulateOptions options) {
  options.keep_times = true;
  std::vector<double> seconds;
  for (const JobTimes& times : simulate(site, trace, options).jobs_times) {
    seconds.push_back(times.start_ms < 0 ? -1 : static_cast<double>(times.start_ms) / 1000);
  }
  return seconds;
}

using Seconds = std::vector<double>;

TEST(Policies, AJobThatDoesNotFitBlocksUnderFifoAndIsOvertakenUnderEasy) {
  // The second job needs both chips at 10 s. The third is short enough to end before.
  const Trace trace = make_trace({{0, 10, 1, ""}, {0, 10, 2, ""}, {0, 5, 1, ""}});
  const Site site = plain_site(1, 2);
  EXPECT_EQ(starts(site, trace, {.policy = "fifo"}), (Seconds{0, 10, 20}));
  EXPECT_EQ(starts(site, trace, {.policy = "easy"}), (Seconds{0, 10, 0}));
  EXPECT_EQ(starts(site, trace, {.policy = "greedy"}), (Seconds{0, 10, 0}));
}

TEST(Policies, EasyDelaysNoPlanAndGreedyDoes) {
  const Trace trace = make_trace({{0, 10, 1, ""}, {0, 10, 2, ""}, {0, 15, 1, ""}});
  const Site site = plain_site(1, 2);
  EXPECT_EQ(starts(site, trace, {.policy = "easy"}), (Seconds{0, 10, 20}));
  EXPECT_EQ(starts(site, trace, {.policy = "greedy"}), (Seconds{0, 15, 0}));
}

TEST(Policies, EasyLetsALongJobUseWhatThePlanLeaves) {
  // The plan takes one node at 10 s, and 2 chips stay free on the other.
  const Trace trace = make_trace({{0, 10, 4, ""}, {0, 50, 2, ""}, {0, 10, 4, ""}, {0, 50, 2, ""}});
  EXPECT_EQ(starts(plain_site(2, 4), trace, {.policy = "easy"}), (Seconds{0, 0, 10, 0}));
}

TEST(Policies, EasyBelievesThePredictedTimes) {
  Trace trace = make_trace({{0, 10, 1, ""}, {0, 10, 2, ""}, {0, 5, 1, ""}});
  trace.jobs[2].predicted_ms = 20000;  // it would be short enough, but nobody knows
  EXPECT_EQ(starts(plain_site(1, 2), trace, {.policy = "easy"}), (Seconds{0, 10, 20}));
}

TEST(Policies, ShortestStartsTheShortestByPrediction) {
  Trace trace = make_trace({{0, 10, 1, ""}, {1, 100, 1, ""}, {2, 5, 1, ""}, {3, 1, 1, ""}});
  EXPECT_EQ(starts(plain_site(1, 1), trace, {.policy = "shortest"}), (Seconds{0, 16, 11, 10}));
  trace.jobs[3].predicted_ms = 7000;
  EXPECT_EQ(starts(plain_site(1, 1), trace, {.policy = "shortest"}), (Seconds{0, 16, 10, 15}));
}

TEST(Policies, BestFitKeepsANodeWholeAndSpreadDoesNot) {
  const Trace trace = make_trace({{0, 10, 2, ""}, {1, 10, 2, ""}, {2, 10, 4, ""}});
  const Site site = plain_site(2, 4);
  EXPECT_EQ(starts(site, trace, {.policy = "best-fit"}), (Seconds{0, 1, 2}));
  EXPECT_EQ(starts(site, trace, {.policy = "spread"}), (Seconds{0, 1, 10}));
}

TEST(Policies, RandomIsTheSameForOneSeedAndNotForAnother) {
  std::vector<TestJob> jobs;
  for (int i = 0; i < 200; ++i) jobs.push_back({i * 1.0, 30, i % 5 == 0 ? 4 : 1, ""});
  const Trace trace = make_trace(jobs);
  const Site site = plain_site(4, 4);
  const Seconds first = starts(site, trace, {.policy = "random", .seed = 1});
  EXPECT_EQ(first, starts(site, trace, {.policy = "random", .seed = 1}));
  EXPECT_NE(first, starts(site, trace, {.policy = "random", .seed = 2}));
}

TEST(Policies, FgdPutsPartsOnOneChipSoThatWholeNodesStay) {
  // Half of the jobs take half a chip, the others a node of two chips.
  Trace trace = make_trace({{0, 10, 1, ""}, {1, 10, 1, ""}, {2, 10, 2, ""}, {50, 1, 2, ""}});
  trace.jobs[0].chip_milli = trace.jobs[1].chip_milli = 500;
  const Site site = plain_site(2, 2);
  EXPECT_EQ(starts(site, trace, {.policy = "fgd"}), (Seconds{0, 1, 2, 50}));
  EXPECT_EQ(starts(site, trace, {.policy = "spread"}), (Seconds{0, 1, 10, 50}));
}

TEST(Policies, HardGroupsHaveWallsAndSoftOnesDoNot) {
  std::vector<TestJob> jobs(5, {0, 10, 1, ""});
  jobs.push_back({1, 10, 2, ""});
  const Trace trace = make_trace(jobs);
  const Site site = split_site(2, 4, 1, false);
  EXPECT_EQ(starts(site, trace, {.policy = "hard-groups"}), (Seconds{0, 0, 0, 0, 10, 1}));
  EXPECT_EQ(starts(site, trace, {.policy = "soft-groups"}), (Seconds{0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(starts(site, trace, {}), (Seconds{0, 0, 0, 0, 10, 1})) << "the site has no spill";
  EXPECT_EQ(starts(split_site(2, 4, 1, true), trace, {}), (Seconds{0, 0, 0, 0, 0, 1}));
}

TEST(Policies, AGroupWithItsOwnJobsSendsGuestsAway) {
  // The guest of job 1 in "multi" has to go when the owner comes at 5 s, and starts again at 10 s.
  Site site = split_site(2, 1, 1, false);
  site.groups[1].least_chips = 2;
  site.nodes[0].chips = 2;
  site.groups[0].spill = {"multi"};
  site.preemption.mode = Preemption::kRequeue;
  const Trace trace = make_trace({{0, 10, 1, ""}, {0, 10, 1, ""}, {1, 10, 1, ""}, {5, 20, 2, ""}});
  EXPECT_EQ(starts(site, trace, {}), (Seconds{0, 0, 10, 5}));
  EXPECT_EQ(starts(site, trace, {.policy = "no-preempt"}), (Seconds{0, 0, 1, 11}));
}

TEST(Policies, AReserveThatIsHeldStaysIdleForItsQueue) {
  Site site = plain_site(2, 1);
  add_urgent(site, 1, false, Preemption::kOff);
  const Trace trace =
      make_trace({{0, 10, 1, ""}, {0, 10, 1, ""}, {5, 10, 1, "urgent"}, {6, 3, 1, ""}});
  EXPECT_EQ(starts(site, trace, {}), (Seconds{0, 10, 5, 20}));
  EXPECT_EQ(starts(site, trace, {.policy = "lent-reserve"}), (Seconds{0, 0, 10, 10}));
  EXPECT_EQ(starts(site, trace, {.policy = "no-reserve"}), (Seconds{0, 0, 10, 10}));
}

TEST(Policies, UrgentJobsPreemptWhoeverLosesLeast) {
  Site site = plain_site(1, 2);
  add_urgent(site, 0, true, Preemption::kRequeue);
  const Trace trace = make_trace({{0, 100, 1, ""}, {50, 100, 1, ""}, {60, 10, 1, "urgent"}});
  SimulateOptions options{.keep_times = true};
  Simulation result = simulate(site, trace, options);
  EXPECT_EQ(result.jobs_times[2].start_ms, 60000);
  EXPECT_EQ(result.jobs_times[1].start_ms, 70000);
  EXPECT_EQ(result.jobs_times[1].end_ms, 170000);
  EXPECT_EQ(result.preemptions, 1);
  EXPECT_DOUBLE_EQ(result.lost_chip_hours, 10.0 / 3600);
  EXPECT_LT(result.utilisation, result.allocation);
  options.checkpoint_ms = 7000;  // 7 of the 10 seconds are kept; the other job would lose 4
  result = simulate(site, trace, options);
  EXPECT_EQ(result.jobs_times[1].end_ms, 163000);
  EXPECT_DOUBLE_EQ(result.lost_chip_hours, 3.0 / 3600);
  site.preemption.mode = Preemption::kCancel;
  result = simulate(site, trace, {.keep_times = true});
  EXPECT_EQ(result.cancelled, 1);
  EXPECT_EQ(result.finished, 2);
  EXPECT_EQ(starts(site, trace, {.policy = "no-preempt"}), (Seconds{0, 50, 100}));
}

TEST(Policies, ThroughputTakesTheChipOnWhichAModelIsFastest) {
  Site site = plain_site(1, 1);
  site.nodes.push_back({.names = {"k0"}, .chip = "k80", .chips = 1, .cores = 8});
  site.groups[0].nodes.push_back("k0");
  Throughputs rates;
  rates.rates["v100"] = {{"big|1", 10}, {"small|1", 4}};
  rates.rates["k80"] = {{"big|1", 2}, {"small|1", 5}};
  Trace trace = make_trace({{0, 20, 1, ""}, {0, 20, 1, ""}, {1, 20, 1, ""}});
  trace.models = {"", "big", "small"};
  trace.jobs[0].model = 2;
  trace.jobs[1].model = trace.jobs[2].model = 1;
  SimulateOptions options{.policy = "throughput", .throughputs = &rates, .keep_times = true};
  Simulation result = simulate(site, trace, options);
  // The small one is faster on the k80: 20 s on a v100 are 16 s there. Then the third takes it.
  EXPECT_EQ(result.jobs_times[0].end_ms, 16000);
  EXPECT_EQ(result.jobs_times[1].end_ms, 20000);
  EXPECT_EQ(result.jobs_times[2].start_ms, 16000);
  EXPECT_EQ(result.jobs_times[2].end_ms, 116000);  // 20 s on a v100 are 100 s there
  options.policy = "best-fit";
  result = simulate(site, trace, options);
  EXPECT_EQ(result.jobs_times[1].end_ms, 100000) << "best fit looks at no kind";
}

TEST(Policies, PartsExcludeEachOtherInASlot) {
  EXPECT_NO_THROW(make_policy("fifo+fgd+hard-groups+held-reserve+preempt"));
  for (const char* wrong : {"fifo+easy", "best", "fifo+", "+", "fgd+random"}) {
    EXPECT_THROW(make_policy(wrong), InvalidArgument) << wrong;
  }
}

TEST(Policies, AJobOverSeveralNodesTakesWholeOnesAndTheBestFitForTheRest) {
  // 10 chips on nodes of 4: two whole ones, and 2 chips beside the job that runs.
  const Trace trace = make_trace({{0, 100, 2, ""}, {1, 10, 10, ""}, {2, 10, 4, ""}});
  EXPECT_EQ(starts(plain_site(3, 4), trace, {}), (Seconds{0, 1, 11}));
  EXPECT_EQ(starts(plain_site(4, 4), trace, {}), (Seconds{0, 1, 2}));
}

TEST(Policies, WhatTheSiteHasNoPlaceForIsRefusedWithAReason) {
  const Simulation result =
      simulate(split_site(2, 4, 1, false), make_trace({{0, 1, 8, ""}, {0, 1, 4, ""}}), {});
  EXPECT_EQ(result.refused, 1);
  EXPECT_EQ(result.finished, 1);
  ASSERT_EQ(result.reasons.size(), 1u);
  EXPECT_NE(result.reasons[0].find("8 chips"), std::string::npos) << result.reasons[0];
}

TEST(Policies, ThePartsOfTimeAreRight) {
  // One chip of two for 10 s, then both for 10 s; a job of two chips waits for 10 s.
  const Simulation result =
      simulate(plain_site(1, 2), make_trace({{0, 10, 1, ""}, {0, 10, 2, ""}}), {});
  EXPECT_DOUBLE_EQ(result.makespan_s, 20);
  EXPECT_DOUBLE_EQ(result.allocation, 0.75);
  EXPECT_DOUBLE_EQ(result.fragmentation, 0.25);
  EXPECT_DOUBLE_EQ(result.busy_allocation, 0.5);
  EXPECT_DOUBLE_EQ(result.all.mean_s, 5);
  EXPECT_DOUBLE_EQ(result.completion.mean_s, 15);
  ASSERT_EQ(result.waits.size(), 2u);
  EXPECT_EQ(result.waits[1].name, "2-7 chips");
  EXPECT_DOUBLE_EQ(result.waits[1].p99_s, 10);
  double sum = 0;
  for (const SeriesPoint& point : result.series) sum += point.allocated;
  EXPECT_NEAR(sum / static_cast<double>(result.series.size()), 0.75, 1e-9);
}

TEST(Policies, DeadlinesThatPassAreCounted) {
  Trace trace = make_trace({{0, 10, 1, ""}, {0, 10, 1, ""}, {0, 10, 1, ""}});
  trace.jobs[0].deadline_ms = 10000;
  trace.jobs[1].deadline_ms = 15000;
  const Simulation result = simulate(plain_site(1, 1), trace, {});
  EXPECT_EQ(result.with_deadline, 2);
  EXPECT_EQ(result.missed_deadlines, 1);
}

TEST(Policies, OptionsOutOfRangeAreRefused) {
  const Trace trace = make_trace({{0, 1, 1, ""}});
  EXPECT_THROW(simulate(plain_site(1, 1), trace, {.inflate = 0}), InvalidArgument);
  EXPECT_THROW(simulate(plain_site(1, 1), trace, {.urgent = 0.5}), InvalidArgument);
  EXPECT_THROW(simulate(plain_site(1, 0), trace, {}), InvalidArgument);
}

}  // namespace
}  // namespace stretto::cluster
