// Shares and limits in schedules that were worked out by hand.
#include "stretto/cluster/simulate/user_shares.h"

#include <gtest/gtest.h>

#include <vector>

#include "stretto/cluster/simulate_testing.h"

namespace stretto::cluster {
namespace {

using Starts = std::vector<double>;

struct Outcome {
  Starts starts;
  std::vector<std::string> reasons;
};

Outcome outcome_of(const Site& site, const Trace& trace) {
  const Simulation result = simulate(site, trace, {.keep_times = true});
  Outcome outcome{.starts = {}, .reasons = result.reasons};
  int64_t never = 0;
  for (const JobTimes& times : result.jobs_times) {
    never += times.start_ms < 0;
    outcome.starts.push_back(times.start_ms < 0 ? -1 : static_cast<double>(times.start_ms) / 1000);
  }
  EXPECT_EQ(result.refused, never);
  return outcome;
}

Starts starts_of(const Site& site, const Trace& trace) { return outcome_of(site, trace).starts; }

TEST(UserShares, WhoHadLessForTheShareIsNext) {
  Site site = plain_site(1, 1);
  const Trace trace = make_trace({{0, 10, 1, "", "ada"},
                                  {0, 10, 1, "", "ada"},
                                  {0, 10, 1, "", "ada"},
                                  {0, 10, 1, "", "bob"},
                                  {0, 10, 1, "", "bob"},
                                  {0, 10, 1, "", "bob"}});
  EXPECT_EQ(starts_of(site, trace), (Starts{0, 10, 20, 30, 40, 50})) << "no shares: as they came";
  site.users.push_back({.name = "ada", .share = 2});
  // Chip seconds over shares, ada and bob: 0 and 0, 5 and 0, 5 and 10, 10 and 10, 15 and 10.
  EXPECT_EQ(starts_of(site, trace), (Starts{0, 20, 30, 10, 40, 50}));
  site.users[0].share = 0.5;  // 0 and 0, 20 and 0, 20 and 10, 20 and 20, 40 and 20, all of ada's
  EXPECT_EQ(starts_of(site, trace), (Starts{0, 30, 50, 10, 20, 40}));
}

TEST(UserShares, AJobCountsAsOftenAsItHasChips) {
  Site site = plain_site(1, 4);
  site.users.push_back({.name = "ada", .share = 1});
  // Until 10 s ada has 4 chips. Then bob has 1, and a guest has the share of 1 that others have.
  const Trace trace = make_trace({{0, 10, 4, "", "ada"},
                                  {1, 30, 4, "", "ada"},
                                  {2, 20, 3, "", "bob"},
                                  {3, 20, 4, "", "guest"},
                                  {4, 20, 4, "", "bob"}});
  // 10 s: bob 0. 30 s: guest 0, ada 40, bob 60. 50 s: ada 40, bob 60. 80 s: bob.
  EXPECT_EQ(starts_of(site, trace), (Starts{0, 50, 10, 30, 80}));
}

TEST(UserShares, QueuesComeBeforeShares) {
  Site site = plain_site(1, 1);
  add_urgent(site, 0, false, Preemption::kOff);
  site.users.push_back({.name = "ada", .share = 1});
  const Trace trace =
      make_trace({{0, 10, 1, "", "ada"}, {1, 10, 1, "", "bob"}, {2, 10, 1, "urgent", "ada"}});
  EXPECT_EQ(starts_of(site, trace), (Starts{0, 20, 10}));
}

TEST(UserShares, HalfIsForgottenInSevenDays) {
  constexpr double kHour = 3600, kLater = 14 * 24 * kHour;
  Site site = plain_site(1, 1);
  site.users.push_back({.name = "ada", .share = 1});
  // Of ada's 10 hours 2.5 are left; bob's 3 are fresh.
  std::vector<TestJob> jobs = {{0, 10 * kHour, 1, "", "ada"},
                               {kLater, 3 * kHour, 1, "", "bob"},
                               {kLater + 1, kHour, 1, "", "bob"},
                               {kLater + 2, kHour, 1, "", "ada"}};
  EXPECT_EQ(starts_of(site, make_trace(jobs)),
            (Starts{0, kLater, kLater + 4 * kHour, kLater + 3 * kHour}));
  jobs[0].duration_s = 14 * kHour;  // 3.5 are left
  EXPECT_EQ(starts_of(site, make_trace(jobs)),
            (Starts{0, kLater, kLater + 3 * kHour, kLater + 4 * kHour}));
}

TEST(UserShares, AJobOverALimitWaitsAndKeepsNobody) {
  const Trace trace = make_trace(
      {{0, 10, 1, "", "ada"}, {0, 10, 1, "", "ada"}, {0, 10, 1, "", "ada"}, {0, 10, 2, "", "bob"}});
  Site site = plain_site(1, 4);
  EXPECT_EQ(starts_of(site, trace), (Starts{0, 0, 0, 10}));
  site.users.push_back({.name = "ada", .most_chips = 2});
  EXPECT_EQ(starts_of(site, trace), (Starts{0, 0, 10, 0}));
  site.users.clear();
  site.queues[0].most_chips = 3;
  EXPECT_EQ(starts_of(site, trace), (Starts{0, 0, 0, 10}));
  site.queues[0].most_chips = 2;
  EXPECT_EQ(starts_of(site, trace), (Starts{0, 0, 10, 20}));
}

TEST(UserShares, WhatNoLimitWillEverAllowIsRefused) {
  const Trace trace = make_trace({{0, 60, 6, "", "ada"}, {1, 61, 2, "", "bob"}});
  const Site site = plain_site(3, 2);
  EXPECT_EQ(outcome_of(site, trace).starts, (Starts{0, 60}));
  using Change = void (*)(Site&);
  const struct {
    Change change;
    Starts starts;
    std::string reason;
  } cases[] = {
      {[](Site& s) { s.users = {{.name = "ada", .most_chips = 5}}; },
       {-1, 1},
       "6 chips are more than the 5 of their user"},
      {[](Site& s) { s.queues[0].most_chips = 5; },
       {-1, 1},
       "6 chips are more than the 5 of queue 'normal'"},
      {[](Site& s) { s.limits.most_chips = 5; },
       {-1, 1},
       "6 chips are more than the 5 of [limits]"},
      {[](Site& s) { s.limits.most_nodes = 2; },
       {-1, 1},
       "no nodes for 6 chips, 0 cores and 0 MB in queue 'normal'"},
      {[](Site& s) { s.limits.longest_s = 60; },
       {0, -1},
       "jobs that take longer than queue 'normal' allows"},
      {[](Site& s) { s.queues[0].longest_s = 60; },
       {0, -1},
       "jobs that take longer than queue 'normal' allows"},
  };
  for (const auto& each : cases) {
    Site limited = site;
    each.change(limited);
    const Outcome outcome = outcome_of(limited, trace);
    EXPECT_EQ(outcome.starts, each.starts) << each.reason;
    EXPECT_EQ(outcome.reasons, std::vector<std::string>{each.reason});
  }
}

}  // namespace
}  // namespace stretto::cluster
