#include "stretto/comm/negotiate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

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
      EXPECT_EQ(result.agreed_hashes, results[0].agreed_hashes);
      EXPECT_EQ(result.all_joined, results[0].all_joined);
      EXPECT_EQ(result.idle, results[0].idle);
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
          agreed[r].insert(agreed[r].end(), results[r].agreed.begin(), results[r].agreed.end());
          ASSERT_EQ(agreed[r], agreed[0]) << "seed " << seed << ", rank " << r << " of " << n;
        }
      }
      std::sort(agreed[0].begin(), agreed[0].end());
      EXPECT_EQ(std::unique(agreed[0].begin(), agreed[0].end()) - agreed[0].begin(), 40) << n;
    }
    EXPECT_TRUE(job.round(0)[0].idle);
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
  EXPECT_EQ(job.round(3)[2].agreed, std::vector<std::string>{"w"});
  job.ranks[0].add("w", "f32", 4);
  EXPECT_TRUE(job.round(4)[0].agreed.empty()) << "the next step's is another one";
}

TEST(Negotiate, NamesTensorsAndRanksThatStall) {
  Job job(70, 10);
  for (int r = 0; r < 70; ++r) {
    if (r != 3 && r != 66) job.ranks[r].add("fc.weight", "f32 10", 0);
    job.ranks[r].add("bias", r == 1 ? "f32 7" : "f32 8", 0);
  }
  std::vector<Stall> stalls, elsewhere;
  for (int second = 1; second < 15; ++second) {
    const auto results = job.round(second);
    if (!results[5].stalls.empty()) {
      stalls = results[5].stalls;
      elsewhere = results[3].stalls;
    }
  }
  const auto find = [&](const std::string& name) {
    return std::find_if(stalls.begin(), stalls.end(),
                        [&](const Stall& s) { return s.name == name; });
  };
  ASSERT_NE(find("fc.weight"), stalls.end());
  EXPECT_EQ(find("fc.weight")->missing, (std::vector<int>{3, 66}));
  EXPECT_GE(find("fc.weight")->waiting_s, 10);
  ASSERT_NE(find("bias"), stalls.end());
  EXPECT_EQ(find("bias")->missing, std::vector<int>{1}) << "another fingerprint is another tensor";
  EXPECT_EQ(elsewhere.size(), 3u) << "a rank that lacks it hears of it too";
}

TEST(Negotiate, JoinedRanksHoldNobodyUp) {
  Job job(3);
  for (auto& rank : job.ranks) rank.add("w", "f32", 0);
  job.round(0);
  EXPECT_EQ(job.round(1)[0].agreed.size(), 1u);
  job.ranks[2].join();
  for (int r = 0; r < 2; ++r) job.ranks[r].add("w", "f32", 2);
  const auto results = job.round(2);
  EXPECT_EQ(results[0].agreed, std::vector<std::string>{"w"});
  EXPECT_EQ(results[2].agreed, std::vector<std::string>{""}) << "not handed in there";
  EXPECT_EQ(results[2].agreed_hashes, results[0].agreed_hashes);
  EXPECT_FALSE(results[0].all_joined);
  job.ranks[0].join();
  job.ranks[1].join();
  const auto last = job.round(3);
  EXPECT_TRUE(last[0].all_joined);
  EXPECT_TRUE(last[0].agreed.empty());
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
      for (const std::string& name : results[0].agreed)
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
