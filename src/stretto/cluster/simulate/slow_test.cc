// The simulator against a slow one, on random jobs and for every part of a policy.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "stretto/cluster/policy/policy.h"
#include "stretto/cluster/simulate_testing.h"
#include "stretto/cluster/trace/lines.h"

namespace stretto::cluster {
namespace {

constexpr int kSeeds = 12;

// Few different times, so that many things happen at once.
Trace random_trace(Random& random, bool parts) {
  constexpr int kChips[] = {1, 1, 1, 1, 2, 3, 4, 4, 6, 8, 9, 16};
  std::vector<TestJob> jobs;
  const int count = 30 + static_cast<int>(random.below(60));
  for (int i = 0; i < count; ++i) {
    jobs.push_back({static_cast<double>(random.below(40)),
                    static_cast<double>(1 + random.below(20)), kChips[random.below(12)],
                    random.below(6) == 0 ? "urgent" : ""});
  }
  std::ranges::stable_sort(jobs, {}, &TestJob::submit_s);
  Trace trace = make_trace(jobs);
  for (Job& job : trace.jobs) {
    // Some users do not know how long their jobs run.
    if (random.below(3) == 0) job.predicted_ms = static_cast<int64_t>(1 + random.below(30)) * 1000;
    if (!parts) continue;
    if (job.chips == 1 && random.below(2) == 0) {
      job.chip_milli = static_cast<int>(100 * (1 + random.below(9)));
    }
    if (random.below(8) == 0) {
      job.chips = 0;
      job.chip_milli = 1000;
    }
    job.cores_milli = static_cast<int>(random.below(4) * 500) * std::max(1, job.chips);
    job.memory_mb = static_cast<int64_t>(random.below(3) * 100) * std::max(1, job.chips);
  }
  return trace;
}

std::vector<Site> sites() {
  std::vector<Site> all{plain_site(5, 8), split_site(5, 8, 2, false), split_site(5, 4, 2, true)};
  for (const bool lend : {false, true}) {
    for (const Preemption mode : {Preemption::kOff, Preemption::kRequeue, Preemption::kCancel}) {
      Site site = split_site(6, 8, 2, false);
      if (lend) site.groups[0].spill = {"multi"};
      add_urgent(site, 1, lend, mode);
      all.push_back(site);
    }
  }
  Site mixed = plain_site(3, 8);
  mixed.nodes.push_back(
      {.names = {"k0", "k1", "k2"}, .chip = "k80", .chips = 4, .cores = 4, .memory_mb = 500});
  for (const std::string& name : mixed.nodes.back().names) mixed.groups[0].nodes.push_back(name);
  all.push_back(mixed);
  return all;
}

// The jobs get users, and take so long that what users had is partly forgotten.
Trace with_users(Trace trace, Random& random) {
  Names users(trace.users);
  for (Job& job : trace.jobs) {
    job.user = users.index(std::string(1, "abcd"[random.below(4)]));
    for (int64_t* ms : {&job.submit_ms, &job.duration_ms, &job.predicted_ms}) *ms *= 400;
  }
  return trace;
}

std::vector<Site> sites_with_shares() {
  std::vector<Site> all = sites();
  for (Site& site : all) {
    site.users = {{.name = "a", .share = 3, .most_chips = 9}, {.name = "b", .share = 0.3}};
    site.queues.back().most_chips = 20;
    site.limits = {.longest_s = 10000, .most_chips = 9, .most_nodes = 2};
  }
  return all;
}

void compare(const std::string& policy, bool parts, bool shares = false) {
  const std::vector<Site> all = shares ? sites_with_shares() : sites();
  int64_t waited = 0;
  for (size_t s = 0; s < all.size(); ++s) {
    for (int seed = 1; seed <= kSeeds; ++seed) {
      Random random(static_cast<uint64_t>(seed));
      Trace trace = random_trace(random, parts);
      if (shares) trace = with_users(std::move(trace), random);
      const SimulateOptions options{
          .policy = policy, .seed = static_cast<uint64_t>(seed), .keep_times = true};
      const std::vector<JobTimes> fast = simulate(all[s], trace, options).jobs_times;
      const std::vector<JobTimes> slow = simulate_slowly(all[s], trace, options);
      ASSERT_EQ(fast.size(), slow.size());
      for (size_t j = 0; j < fast.size(); ++j) {
        const std::string where = fmt::format("policy '{}', site {}, seed {}, job {}, parts {}",
                                              policy, s, seed, j, parts);
        ASSERT_EQ(fast[j].start_ms, slow[j].start_ms) << where;
        ASSERT_EQ(fast[j].end_ms, slow[j].end_ms) << where;
        ASSERT_EQ(fast[j].preemptions, slow[j].preemptions) << where;
        waited += fast[j].start_ms > trace.jobs[j].submit_ms;
      }
    }
  }
  EXPECT_GT(waited, 0) << "the cases are too easy";
}

TEST(AgainstSlow, EveryPartOfAPolicy) {
  for (const PolicyPart& part : policy_parts()) compare(std::string(part.name), false);
}

TEST(AgainstSlow, EveryPlacementInEveryOrder) {
  for (const PolicyPart& order : policy_parts()) {
    if (order.slot != "order") continue;
    for (const PolicyPart& place : policy_parts()) {
      if (place.slot != "place") continue;
      compare(fmt::format("{}+{}+soft-groups", order.name, place.name), false);
    }
  }
}

TEST(AgainstSlow, PartsOfChipsCoresAndMemory) {
  for (const char* policy : {"", "fifo", "greedy+random", "shortest+fgd", "spread", "throughput"}) {
    compare(policy, true);
  }
}

TEST(AgainstSlow, SharesAndLimits) {
  for (const char* policy : {"", "fifo", "greedy+random", "shortest+fgd"}) {
    compare(policy, false, true);
    compare(policy, true, true);
  }
}

}  // namespace
}  // namespace stretto::cluster
