// How many bytes and messages an all-reduce sends, against the bound of its algorithm.
// all_reduce_test.cc tests its sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <string_view>
#include <vector>

#include "stretto/comm/collective/hosts.h"
#include "stretto/comm/collective/simulator.h"

namespace stretto::comm {
namespace {

// What an all-reduce of zeros sends, in place.
SimulatedTraffic traffic_of(std::string_view name, const Problem& problem, std::mt19937& random,
                            DType dtype = DType::kFloat32) {
  std::vector<std::vector<std::byte>> memory(
      static_cast<size_t>(problem.ranks()),
      std::vector<std::byte>(static_cast<size_t>(problem.count) * dtype_bytes(dtype)));
  std::vector<SimulatedRank> ranks(memory.size());
  for (size_t r = 0; r < ranks.size(); ++r) {
    ranks[r].problem = problem;
    ranks[r].problem.rank = static_cast<int>(r);
    ranks[r].input = ranks[r].output = memory[r].data();
  }
  return simulate(find_algorithm(problem, name), ranks, {.dtype = dtype}, random);
}

struct Shape {
  const char* name;
  std::vector<int> host;
};

// 2 (m - 1) / m of the tensor must cross each card, whatever the ranks per host and their order.
TEST(AllReduceTraffic, HierarchicalMeetsTheBoundOfEveryCard) {
  const Shape shapes[] = {
      {"2 x 2", {0, 0, 1, 1}},
      {"2 x 2 interleaved", {0, 1, 0, 1}},
      {"4 x 2", {0, 0, 1, 1, 2, 2, 3, 3}},
      {"3 x 4 interleaved", {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}},
      {"3 + 2", {0, 0, 0, 1, 1}},
      {"1 + 4 + 2 mixed", {1, 0, 1, 2, 1, 2, 1}},
  };
  std::mt19937 random(5);
  const int64_t count = 3 * 4 * 5 * 7 * 64;
  for (const Shape& shape : shapes) {
    Problem problem{.host = shape.host, .count = count};
    const Hosts& hosts = problem.host.hosts();
    const double m = hosts.count(), bytes = 4.0 * count;
    for (const int64_t unit : {int64_t{0}, count / 8}) {
      problem.unit = unit;
      SimulatedTraffic traffic = traffic_of("hierarchical", problem, random);
      const double bound = 2 * (m - 1) / m * bytes;
      EXPECT_LE(static_cast<double>(traffic.busiest()), bound * 1.01) << shape.name;
      EXPECT_GE(static_cast<double>(traffic.busiest()), bound * 0.99) << shape.name;
      EXPECT_LE(traffic.rounds, 4) << shape.name;

      traffic = traffic_of("hierarchical_exchange", problem, random);
      EXPECT_EQ(static_cast<double>(traffic.busiest()), (m - 1) * bytes) << shape.name;
      EXPECT_LE(traffic.rounds, 3) << shape.name;
    }
  }
  // The flat one for comparison: interleaved ranks send k times as much through a card.
  const Problem flat{.host = {0, 1, 0, 1}, .count = count};
  const SimulatedTraffic traffic = traffic_of("direct", flat, random);
  EXPECT_EQ(traffic.busiest(), 2 * 4 * count);  // 2 k (n - k) / n, k = 2, n = 4
}

std::vector<int> in_hosts(int hosts, int ranks_per_host) {
  std::vector<int> host;
  for (int r = 0; r < hosts * ranks_per_host; ++r) host.push_back(r / ranks_per_host);
  return host;
}

// The bytes of tree_halving: 2 (m - 1) / m of the tensor when the hosts are a power of two, at most
// an eighth more than that for other numbers, and never twice the tensor.
TEST(AllReduceTraffic, TreeHalvingMeetsTheBoundOfEveryCard) {
  std::mt19937 random(8);
  for (const int ranks_per_host : {1, 3})
    for (const int m : {2, 3, 4, 5, 7, 8, 12, 16, 21, 32}) {
      Problem problem{
          .host = in_hosts(m, ranks_per_host), .count = 3 * 4096, .order = SumOrder::kTree};
      const SimulatedTraffic traffic = traffic_of("tree_halving", problem, random);
      const double tensor = 4.0 * static_cast<double>(problem.count), bound = 2.0 * (m - 1) / m;
      const int depth = problem.host.hosts().tree[0].depth;
      EXPECT_EQ(depth, std::ceil(std::log2(m)));
      if (1 << depth == m) {
        EXPECT_EQ(static_cast<double>(traffic.busiest()), bound * tensor) << m;
      } else {
        EXPECT_LT(static_cast<double>(traffic.busiest()), bound * tensor * 1.1251) << m;
      }
      EXPECT_EQ(traffic.rounds, 2 * depth + (ranks_per_host > 1 ? 2 : 0)) << m;
      EXPECT_EQ(static_cast<double>(traffic.busiest()),
                4 * find_algorithm(problem, "tree_halving").cost(problem).wire_elements)
          << m;
    }
}

// Messages per rank grow with the logarithm of the hosts, also when it is no whole number.
TEST(AllReduceTraffic, TreesSendFewMessages) {
  for (const int m : {33, 64, 65, 100, 257, 512}) {
    Problem problem{.host = in_hosts(m, 2), .count = 1 << 20};
    const int depth = problem.host.hosts().tree[0].depth;
    for (const char* name : {"tree_halving", "tree_doubling"}) {
      const Algorithm& algorithm = find_algorithm(problem, name);
      int most = 0;
      for (int r = 0; r < problem.ranks(); ++r) {
        problem.rank = r;
        int sent = 0;
        for (const Step& step : algorithm.schedule(problem, 0).steps)
          sent += step.action == Action::kSend;
        most = std::max(most, sent);
      }
      // Two in the host; at most two ranges, or two who get the sum, at every level.
      EXPECT_LE(most, 2 + (name[5] == 'h' ? 4 : 2) * depth) << name << ", " << m;
      EXPECT_LE(most - 2, algorithm.cost(problem).wire_messages) << name << ", " << m;
    }
  }
}

// Between racks, a host sends only what its rack has left to add.
TEST(AllReduceTraffic, TreeHalvingSendsLittleBetweenRacks) {
  std::vector<int> host, rack;
  const int racks = 4, hosts = 4;
  for (int r = 0; r < racks * hosts * 2; ++r) {
    host.push_back(r / 2);
    rack.push_back(r / 2 % racks);  // interleaved
  }
  Problem problem{.host = Placement(host, rack), .count = 1 << 14};
  std::vector<int64_t> out(racks);
  for (int r = 0; r < problem.ranks(); ++r) {
    problem.rank = r;
    const Schedule schedule = find_algorithm(problem, "tree_halving").schedule(problem, 0);
    for (const Step& step : schedule.steps)
      if (step.action == Action::kSend && rack[step.peer] != rack[r]) out[rack[r]] += step.count;
  }
  for (const int64_t elements : out) EXPECT_EQ(elements, 2 * problem.count * (racks - 1) / racks);
}

TEST(AllReduceTraffic, OneRankPerHostMeetsTheBound) {
  std::mt19937 random(6);
  for (const int n : {2, 3, 5, 8}) {
    Problem problem{.count = 840 * 16, .exact = true};
    std::vector<int> host;
    for (int r = 0; r < n; ++r) host.push_back(r);
    problem.host = host;
    for (const char* name : {"direct", "ring"}) {
      const SimulatedTraffic traffic = traffic_of(name, problem, random, DType::kInt32);
      EXPECT_EQ(traffic.busiest() * n, 2 * (n - 1) * 4 * problem.count) << name << ", " << n;
      EXPECT_EQ(traffic.rounds, name[0] == 'd' ? 2 : 2 * (n - 1)) << name << ", " << n;
    }
  }
}

}  // namespace
}  // namespace stretto::comm
