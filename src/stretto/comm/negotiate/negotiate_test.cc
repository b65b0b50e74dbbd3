#include "stretto/comm/negotiate/negotiate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

std::vector<uint64_t> hashes(const Negotiator::Result& result) {
  std::vector<uint64_t> all;
  for (const auto& agreed : result.agreed) all.push_back(agreed.hash);
  return all;
}

std::vector<std::string> names(const Negotiator::Result& result) {
  std::vector<std::string> all;
  for (const auto& agreed : result.agreed) all.emplace_back(agreed.name);
  return all;
}

using Names = std::vector<std::string>;

struct Job {
  explicit Job(int n, double stall_s = 60) : sent(n), received(n) {
    for (int r = 0; r < n; ++r) ranks.emplace_back(r, n, stall_s);
  }

  std::vector<Negotiator::Result> round(double now_s) {
    for (Negotiator& rank : ranks) rank.start();
    for (int k = 0; k < ranks[0].exchanges(); ++k) {
      std::vector<std::vector<std::byte>> messages;
      for (const Negotiator& rank : ranks) messages.push_back(rank.outgoing());
      for (size_t r = 0; r < ranks.size(); ++r) {
        const int from = ranks[r].receive_from(k);
        EXPECT_EQ(ranks[from].send_to(k), static_cast<int>(r));
        ranks[r].combine(messages[from]);
        sent[from] += messages[from].size();
        received[r] += messages[from].size();
      }
    }
    std::vector<Negotiator::Result> results;
    for (Negotiator& rank : ranks) results.push_back(rank.finish(now_s));
    for (const auto& result : results) {
      EXPECT_EQ(hashes(result), hashes(results[0]));
      EXPECT_EQ(result.last_joined, results[0].last_joined);
      EXPECT_EQ(result.left, results[0].left);
      EXPECT_EQ(result.all_left, results[0].all_left);
    }
    return results;
  }

  std::vector<Negotiator> ranks;
  std::vector<size_t> sent, received;
};

TEST(Negotiate, EveryoneGetsTheSameOrder) {
  const unsigned seed = 9;
  std::mt19937 random(seed);
  for (const int n : {1, 2, 3, 5, 8, 17}) {
    Job job(n);
    for (int step = 0; step < 4; ++step) {
      // Each rank hands in the same 40 tensors in its own order, some per round.
      std::vector<std::vector<int>> todo(n, std::vector<int>(40));
      for (auto& order : todo) {
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), random);
      }
      std::vector<std::vector<std::string>> agreed(n);
      for (int round = 0; round < 100 && agreed[0].size() < 40; ++round) {
        for (int r = 0; r < n; ++r)
          for (unsigned i = random() % 8; i > 0 && !todo[r].empty(); --i) {
            job.ranks[r].add("layer" + std::to_string(todo[r].back()), "f32 100", round);
            todo[r].pop_back();
          }
        const auto results = job.round(round);
        for (int r = 0; r < n; ++r) {
          for (const std::string& name : names(results[r])) agreed[r].push_back(name);
          ASSERT_EQ(agreed[r], agreed[0]) << "seed " << seed << ", rank " << r << " of " << n;
        }
      }
      std::sort(agreed[0].begin(), agreed[0].end());
      EXPECT_EQ(std::unique(agreed[0].begin(), agreed[0].end()) - agreed[0].begin(), 40) << n;
    }
    EXPECT_FALSE(job.round(0)[0].more);
    EXPECT_TRUE(job.ranks[0].idle());
  }
}

TEST(Negotiate, NothingIsAgreedBeforeTheLastRankHasIt) {
  Job job(5);
  for (int round = 0; round < 3; ++round) {
    for (int r = 0; r < 4; ++r)
      if (round == 0) job.ranks[r].add("w", "f32", 0);
    EXPECT_TRUE(job.round(round)[0].agreed.empty());
  }
  EXPECT_THROW(job.ranks[0].add("w", "f32", 3), InvalidArgument);
  job.ranks[4].add("w", "f32", 3);
  EXPECT_EQ(names(job.round(3)[2]), Names{"w"});
  job.ranks[0].add("w", "f32", 4);
  EXPECT_TRUE(job.round(4)[0].agreed.empty()) << "the next step's is another one";
}

TEST(Negotiate, NamesTensorsAndRanksThatStall) {
  Job job(70, 10);
  for (int r = 0; r < 70; ++r)
    if (r != 3 && r != 66) job.ranks[r].add("fc.weight", "f32 10", 0);
  EXPECT_EQ(job.ranks[5].next_report_s(), 10);
  EXPECT_GT(job.ranks[3].next_report_s(), 1e9);
  std::vector<Stall> stalls, elsewhere;
  for (int second = 1; second < 15; ++second) {
    const auto results = job.round(second);
    if (!results[5].stalls.empty()) {
      stalls = results[5].stalls;
      elsewhere = results[3].stalls;
    }
  }
  ASSERT_EQ(stalls.size(), 1u);
  EXPECT_EQ(stalls[0].name, "fc.weight");
  EXPECT_EQ(stalls[0].missing, (std::vector<int>{3, 66}));
  EXPECT_GE(stalls[0].waiting_s, 10);
  EXPECT_TRUE(elsewhere.empty()) << "it is not ready there";
}

TEST(Negotiate, KnowsWhereRanksMeanSomethingElse) {
  Job job(5);
  for (int r = 0; r < 5; ++r) job.ranks[r].add("bias", r == 1 ? "f32 7" : "f32 8", 0);
  job.round(0);
  const auto results = job.round(1);
  for (const auto& result : results) {
    ASSERT_EQ(result.agreed.size(), 1u);
    EXPECT_TRUE(result.agreed[0].differs);
  }
  // From now on all mean the same, first something new and then that again.
  for (const bool differs : {true, false}) {
    for (auto& rank : job.ranks) rank.add("bias", "f32 9", 2);
    for (auto& rank : job.ranks) rank.add("other", "f32 9", 2);
    auto again = job.round(2)[0];
    ASSERT_EQ(again.agreed.size(), differs ? 1u : 2u);
    EXPECT_EQ(again.agreed[0].differs, differs);
    for (auto& rank : job.ranks) rank.settle(again.agreed[0].hash, "f32 9");
    if (differs) job.round(3);
  }
}

TEST(Negotiate, JoinedRanksHoldNobodyUp) {
  Job job(3);
  for (auto& rank : job.ranks) rank.add("w", "f32", 0);
  job.round(0);
  EXPECT_EQ(job.round(1)[0].agreed.size(), 1u);
  job.ranks[2].join();
  for (int r = 0; r < 2; ++r) job.ranks[r].add("w", "f32", 2);
  const auto results = job.round(2);
  EXPECT_EQ(names(results[0]), Names{"w"});
  EXPECT_EQ(names(results[2]), Names{""}) << "not handed in there";
  EXPECT_TRUE(results[1].someone_joined);
  EXPECT_EQ(results[0].last_joined, -1);
  job.ranks[0].join();
  EXPECT_EQ(job.round(3)[0].last_joined, -1);
  job.ranks[1].join();
  const auto last = job.round(4);
  EXPECT_EQ(last[0].last_joined, 1);
  EXPECT_TRUE(last[0].agreed.empty());
  EXPECT_FALSE(job.round(5)[0].someone_joined) << "it is over with the last one";
}

TEST(Negotiate, WhatWasHandedInBeforeJoiningIsDoneFirst) {
  Job job(3);
  job.ranks[0].add("a", "f32", 0);
  job.ranks[1].add("b", "f32", 0);
  for (auto& rank : job.ranks) rank.join();
  EXPECT_EQ(job.round(0)[0].last_joined, -1);
  const auto results = job.round(1);
  EXPECT_EQ(results[2].agreed.size(), 2u);
  EXPECT_EQ(results[2].last_joined, -1);
  EXPECT_TRUE(results[0].more) << "the others have to hear that it is through";
  EXPECT_EQ(job.round(2)[0].last_joined, 2);
}

TEST(Negotiate, NobodyWaitsForARankThatHasLeft) {
  Job job(4);
  for (auto& rank : job.ranks) rank.add("last", "f32", 0);
  job.ranks[1].leave();
  EXPECT_EQ(job.round(0)[0].left, -1) << "it has something open";
  const auto last = job.round(1);
  EXPECT_EQ(last[0].agreed.size(), 1u);
  EXPECT_TRUE(last[1].more);
  job.ranks[2].add("lost", "f32", 2);
  job.round(2);
  const auto results = job.round(3);
  ASSERT_EQ(results[2].hopeless.size(), 1u);
  EXPECT_EQ(results[2].hopeless[0].name, "lost");
  EXPECT_TRUE(results[0].hopeless.empty());
  EXPECT_EQ(results[2].left, 1);
  EXPECT_FALSE(results[0].all_left);
  for (auto& rank : job.ranks) rank.leave();
  EXPECT_TRUE(job.round(4)[3].all_left);
}

TEST(Negotiate, NamesThatAreUsedOnceAreForgotten) {
  Job job(3);
  for (int i = 0; i < 20000; ++i) {
    for (auto& rank : job.ranks) rank.add("step " + std::to_string(i), "f32", i);
    for (auto& rank : job.ranks) rank.add("every step", "f32", i);
    // A name of its own that nobody else has, from some step on, must survive.
    if (i == 5) job.ranks[0].add("waits", "f32", i);
    size_t agreed = 0;
    while (agreed < 2) agreed += job.round(i)[0].agreed.size();
  }
  EXPECT_LE(job.ranks[0].numbers(), 4200u);
  for (int r = 1; r < 3; ++r) job.ranks[r].add("waits", "f32", 30000);
  EXPECT_EQ(names(job.round(30000)[0]), Names{"waits"});
}

TEST(Negotiate, RefusesForeignMessages) {
  std::mt19937 random(3);
  Negotiator a(0, 2), b(1, 2);
  a.add("x", "f", 0);
  a.start();
  b.start();
  const auto good = a.outgoing();
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_THROW(b.combine(std::span(good).first(size)), FormatError);
  auto longer = good;
  longer.push_back({});
  EXPECT_THROW(b.combine(longer), FormatError);
  for (int trial = 0; trial < 1000; ++trial) {
    std::vector<std::byte> noise(random() % 64);
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    try {
      b.combine(noise);
    } catch (const FormatError&) {
    }
  }
  EXPECT_NO_THROW(b.combine(good));
}

// A rank that does not exist would be the one that joined last.
TEST(Negotiate, RefusesARankThatIsNone) {
  Negotiator a(0, 3), b(1, 2);
  for (int i = 0; i < 2; ++i) a.start();
  b.start();
  auto message = a.outgoing();
  message[24] = std::byte{2};  // the rank, in the word that says who joined last
  EXPECT_THROW(b.combine(message), FormatError);
  message[24] = std::byte{1};
  EXPECT_NO_THROW(b.combine(message));
}

// It would get a second number.
TEST(Negotiate, RefusesANewNameThatIsNotNew) {
  Negotiator a(0, 2), b(1, 2);
  a.add("x", "f", 0);
  a.start();
  const auto fresh = a.outgoing();
  b.start();
  b.combine(fresh);
  b.finish(0);
  ASSERT_EQ(b.numbers(), 1u);
  b.start();
  auto again = b.outgoing();
  again[12] = std::byte{1};  // how many are new
  again.insert(again.end(), fresh.end() - 16, fresh.end());
  EXPECT_THROW(b.combine(again), FormatError);
  EXPECT_EQ(b.numbers(), 1u);
}

// What the busiest rank moves in a few steps of training, against the usual way: every rank sends
// the names it has ready to rank 0, which answers with the names that all have (Horovod without its
// cache: 4 bytes of header, and a name with its shape, per tensor).
TEST(Negotiate, TwentyTimesLessThroughTheBusiestRank) {
  const int n = 256, tensors = 1000, steps = 2, rounds = 4;
  std::vector<std::string> names;
  for (int t = 0; t < tensors; ++t)
    names.push_back("DistributedOptimizer.module.layer" + std::to_string(t) + ".weight");
  Job job(n, 1e9);
  size_t through_root = 0;
  std::mt19937 random(1);
  for (int step = 0; step < steps; ++step) {
    size_t agreed = 0;
    for (int round = 0; round < rounds || agreed < names.size(); ++round) {
      ASSERT_LT(round, rounds + 2);
      // Backward yields about the same tensors at about the same time everywhere.
      const int end = std::min(tensors, (round + 1) * tensors / rounds);
      for (int r = 0; r < n; ++r)
        for (int t = std::min(tensors, round * tensors / rounds); t < end; ++t) {
          job.ranks[r].add(names[t], "allreduce float32 4096", round);
          if (r != 0) through_root += 4 + names[t].size() + 24;
        }
      const auto results = job.round(round);
      agreed += results[0].agreed.size();
      for (const std::string& name : ::stretto::comm::names(results[0]))
        through_root += static_cast<size_t>(n - 1) * (4 + name.size());
    }
    EXPECT_EQ(agreed, names.size());
  }
  size_t busiest = 0;
  for (int r = 0; r < n; ++r) busiest = std::max(busiest, job.sent[r] + job.received[r]);
  EXPECT_GE(through_root, 20 * busiest) << through_root << " against " << busiest;
  RecordProperty("ratio", static_cast<int>(through_root / busiest));
}

}  // namespace
}  // namespace stretto::comm
