// The cost model against what the simulator counts, and what is chosen by it.
#include "stretto/comm/collective/algorithm.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/comm/collective/hosts.h"
#include "stretto/comm/collective/simulator.h"

namespace stretto::comm {
namespace {

constexpr Collective kKinds[] = {
    Collective::kAllReduce,     Collective::kBroadcast, Collective::kAllGather,
    Collective::kReduceScatter, Collective::kReduce,    Collective::kGather,
    Collective::kScatter,       Collective::kAllToAll,  Collective::kBarrier,
};

std::vector<std::vector<int>> shapes() {
  return {{0},
          {0, 0},
          {0, 1},
          {0, 0, 1, 1},
          {0, 1, 0, 1},
          {0, 1, 2, 3, 4},
          {0, 0, 1, 1, 2, 2, 3, 3},
          {0, 0, 0, 1, 1, 1, 2, 2, 2}};
}

SimulatedTraffic traffic_of(const Algorithm& algorithm, const Problem& problem) {
  const int n = problem.ranks();
  const auto elements = static_cast<size_t>(problem.count * n);
  std::vector<std::vector<int32_t>> in(n, std::vector<int32_t>(elements)), out = in;
  std::vector<SimulatedRank> ranks(n);
  for (int r = 0; r < n; ++r) {
    ranks[r].problem = problem;
    ranks[r].problem.rank = r;
    ranks[r].input = reinterpret_cast<std::byte*>(in[r].data());
    ranks[r].output = reinterpret_cast<std::byte*>(out[r].data());
  }
  std::mt19937 random(1);
  return simulate(algorithm, ranks, {.dtype = DType::kInt32}, random);
}

TEST(Algorithm, CostsAreWhatTheSimulatorCounts) {
  for (const Collective kind : kKinds)
    for (const auto& host : shapes())
      for (const auto& [exact, order] :
           {std::pair{true, SumOrder::kAuto}, {false, SumOrder::kLine}, {false, SumOrder::kTree}})
        for (const Algorithm& algorithm : algorithms(kind)) {
          Problem problem{.kind = kind,
                          .host = host,
                          .count = 2 * 3 * 4 * 5 * 9,
                          .exact = exact,
                          .order = order};
          if (kind == Collective::kBarrier) problem.count = 0;
          if (!algorithm.unfit(problem).empty()) continue;
          const Cost cost = algorithm.cost(problem);
          const SimulatedTraffic traffic = traffic_of(algorithm, problem);
          const auto bytes = static_cast<double>(traffic.busiest());
          const auto messages = static_cast<double>(traffic.most_messages());
          SCOPED_TRACE(fmt::format("{} {} on {} ranks, {} hosts, exact {}", collective_name(kind),
                                   algorithm.name, problem.ranks(), problem.host.hosts().count(),
                                   exact));
          // Of recursive doubling, the busiest card of every round is counted: an upper bound.
          EXPECT_GE(4 * cost.wire_elements, bytes);
          EXPECT_GE(cost.wire_messages, messages);
          if (algorithm.name != "recursive_doubling") {
            EXPECT_EQ(4 * cost.wire_elements, bytes);
          }
          // Of dissemination, those between neighbours are counted too.
          if (algorithm.name != "recursive_doubling" && algorithm.name != "dissemination") {
            EXPECT_EQ(cost.wire_messages, messages);
          }
          // A leader of a tree sends to several others one after the other, which is no chain. The
          // deepest host of an uneven tree may send nothing in the last round.
          if (algorithm.name == "tree" || algorithm.name == "tree_doubling" ||
              algorithm.name == "pipelined_trees") {
            EXPECT_GE(cost.wire_rounds + cost.local_rounds, traffic.rounds);
          } else {
            EXPECT_EQ(cost.wire_rounds + cost.local_rounds, traffic.rounds);
          }
        }
}

TEST(Algorithm, TheFirstOfEveryListFitsEverything) {
  for (const Collective kind : kKinds)
    for (const auto& host : shapes())
      for (const bool coded : {true, false}) {
        if (coded && kind != Collective::kAllReduce) continue;
        const Problem problem{.kind = kind, .host = host, .count = 10, .coded = coded};
        EXPECT_EQ(algorithms(kind)[0].unfit(problem), "");
        EXPECT_EQ(choose_algorithm(problem, {}, {}).unfit(problem), "");
      }
}

std::string_view chosen(std::vector<int> host, int64_t bytes, bool exact = false,
                        const LinkModel& link = {}) {
  const Problem problem{
      .host = std::move(host), .count = bytes / 4, .exact = exact, .unit = 1 << 18};
  return choose_algorithm(problem, link, {}).name;
}

TEST(Algorithm, DefaultsOverEthernet) {
  EXPECT_EQ(chosen({0, 1, 2, 3}, 4), "gather_sum") << "one round";
  EXPECT_EQ(chosen({0, 0, 1, 1}, 4), "hierarchical_exchange") << "one message each way";
  EXPECT_EQ(chosen({0, 0, 1, 1}, 4096), "hierarchical_exchange");
  EXPECT_EQ(chosen({0, 1, 2, 3}, 16 << 20), "direct") << "least bytes, two rounds";
  EXPECT_EQ(chosen({0, 0, 1, 1}, 16 << 20), "hierarchical_exchange") << "two hosts: one exchange";
  EXPECT_EQ(chosen({0, 1, 0, 1}, 16 << 20), "hierarchical_exchange");
  EXPECT_EQ(chosen({0, 0, 1, 1, 2, 2, 3, 3}, 16 << 20), "hierarchical");
  EXPECT_EQ(chosen({0, 1}, 16 << 20), "gather_sum") << "the same bytes as direct in one round";
}

// As between two hosts without a limit of the network. Sums there take what the network takes.
TEST(Algorithm, DefaultsWhereProcessorsAreTheLimit) {
  LinkModel fast;
  fast.wire_byte_s = 0.3e-9;
  fast.wire_latency_s = 20e-6;
  fast.wire_message_s = 1.3e-6;
  EXPECT_EQ(chosen({0, 1}, 128 << 10, false, fast), "gather_sum") << "one round";
  for (const int64_t mb : {1, 4, 16})
    EXPECT_EQ(chosen({0, 1}, mb << 20, false, fast), "direct") << "half the sums; " << mb << " MB";
}

TEST(Algorithm, DefaultsOfManyRanks) {
  for (const int ranks : {64, 512, 4096}) {
    const auto hosts = [&](int ranks_per_host) {
      std::vector<int> host;
      for (int r = 0; r < ranks; ++r) host.push_back(r / ranks_per_host);
      return host;
    };
    SCOPED_TRACE(ranks);
    // 63 messages of 4 us take less time than 6 rounds of 60 us, 511 do not.
    const bool few = ranks == 64;
    for (const bool exact : {true, false})
      EXPECT_EQ(chosen(hosts(1), 4, exact), few ? "gather_sum" : "tree_doubling");
    EXPECT_EQ(chosen(hosts(1), 4096), "tree_doubling");
    EXPECT_EQ(chosen(hosts(1), 64 << 20), "tree_halving") << "least bytes, few messages";
    EXPECT_EQ(chosen(hosts(8), 4), ranks == 4096 ? "tree_doubling" : "hierarchical_exchange");
    EXPECT_EQ(chosen(hosts(8), 64 << 20), few ? "hierarchical" : "tree_halving");

    Problem gather{.kind = Collective::kAllGather, .host = hosts(8), .count = 1};
    EXPECT_EQ(choose_algorithm(gather, {}, {}).name, "recursive_doubling");
    gather.count = 1 << 16;
    EXPECT_EQ(choose_algorithm(gather, {}, {}).name, "hierarchical");
  }
}

// Small tensors reach few ranks in fewer rounds; large ones cross every card once.
TEST(Algorithm, LargeTensorsAreBroadcastAndReducedInSegments) {
  const auto algorithm = [](Collective kind, int hosts, int64_t count) {
    std::vector<int> host(static_cast<size_t>(hosts));
    for (int h = 0; h < hosts; ++h) host[h] = h;
    const Problem problem{.kind = kind, .host = host, .count = count, .unit = 1 << 19};
    return choose_algorithm(problem, {}, {}).name;
  };
  const auto broadcast = [&](int hosts, int64_t count) {
    return algorithm(Collective::kBroadcast, hosts, count);
  };
  for (const int64_t count : {1 << 10, 1 << 14, 1 << 19, 1 << 24})
    EXPECT_NE(broadcast(2, count), "pipelined_trees") << count;
  for (const int hosts : {4, 8, 16}) {
    EXPECT_NE(broadcast(hosts, 1 << 14), "pipelined_trees") << hosts;
    EXPECT_EQ(broadcast(hosts, 1 << 19), "pipelined_trees") << hosts;
    for (const int64_t count : {1 << 10, 1 << 14, 1 << 19, 1 << 24})
      EXPECT_NE(algorithm(Collective::kReduce, hosts, count), "pipelined_trees") << hosts;
  }
  for (const int hosts : {64, 512})
    for (const int64_t count : {1 << 14, 1 << 19, 1 << 24}) {
      EXPECT_EQ(broadcast(hosts, count), "pipelined_trees") << hosts << " " << count;
      EXPECT_EQ(algorithm(Collective::kReduce, hosts, count), "pipelined_trees")
          << hosts << " " << count;
    }
  EXPECT_EQ(algorithm(Collective::kReduce, 512, 1), "pipelined_trees") << "one binomial tree";
}

TEST(Algorithm, EveryRankChoosesTheSame) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 100; ++trial) {
    Problem problem{.count = static_cast<int64_t>(random() % 1000000)};
    const unsigned n = 2 + random() % 16;
    std::vector<int> host;
    for (unsigned r = 0; r < n; ++r) host.push_back(static_cast<int>(random() % 3));
    problem.host = host;
    const std::string_view first = choose_algorithm(problem, {}, {}).name;
    for (unsigned r = 1; r < n; ++r) {
      problem.rank = static_cast<int>(r);
      EXPECT_EQ(choose_algorithm(problem, {}, {}).name, first);
    }
  }
}

}  // namespace
}  // namespace stretto::comm
