// What the trees of pipelined_trees.h send. collectives_test.cc compares their results.
#include "stretto/comm/collective/pipelined_trees.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "stretto/comm/collective/rows.h"

namespace stretto::comm {
namespace {

Problem problem_of(Collective kind, int hosts, int per_host, int64_t count) {
  std::vector<int> host;
  for (int r = 0; r < hosts * per_host; ++r) host.push_back(r / per_host);
  return {.kind = kind,
          .host = host,
          .count = count,
          .root = hosts * per_host / 3,
          .order = SumOrder::kTree};
}

struct Sent {
  std::vector<double> out, in;  // elements of each host
  double most() const {
    return std::max(*std::max_element(out.begin(), out.end()),
                    *std::max_element(in.begin(), in.end()));
  }
};

Sent sent_by(const Algorithm& algorithm, Problem problem) {
  const Hosts& hosts = problem.host.hosts();
  Sent sent{.out = std::vector<double>(hosts.members.size()), .in = {}};
  sent.in = sent.out;
  for (int r = 0; r < problem.ranks(); ++r) {
    problem.rank = r;
    for (const Step& step : algorithm.schedule(problem, 0).steps) {
      if (step.peer < 0 || hosts.host[step.peer] == hosts.host[r]) continue;
      (step.action == Action::kSend ? sent.out : sent.in)[hosts.host[r]] +=
          static_cast<double>(step.count);
    }
  }
  return sent;
}

// Every card carries the tensor once each way, a few percent more where the trees of a few segments
// are not all used as often, whatever the number of hosts.
TEST(PipelinedTrees, EveryCardCarriesTheTensorOnce) {
  for (const Collective kind : {Collective::kBroadcast, Collective::kReduce})
    for (const int per_host : {1, 3})
      for (const int m : {2, 3, 5, 8, 13, 16, 33, 64, 100, 257, 512}) {
        const Problem problem = problem_of(kind, m, per_host, 1 << 20);
        const Algorithm& algorithm = find_algorithm(problem, "pipelined_trees");
        const Sent sent = sent_by(algorithm, problem);
        const auto count = static_cast<double>(problem.count);
        SCOPED_TRACE(testing::Message()
                     << collective_name(kind) << ", " << m << " hosts of " << per_host);
        EXPECT_LE(sent.most(), 1.15 * count);
        EXPECT_EQ(sent.most(), algorithm.cost(problem).wire_elements);
        const int root = problem.host.hosts().host[problem.root];
        EXPECT_EQ((kind == Collective::kReduce ? sent.in : sent.out)[root], count);
        const double all = std::accumulate(sent.in.begin(), sent.in.end(), 0.0);
        EXPECT_EQ(all, count * (kind == Collective::kReduce ? m : m - 1));
      }
}

// The root talks to 64 carriers at most, the others to one or two ranks at every level.
TEST(PipelinedTrees, RanksTalkToFewOthers) {
  for (const Collective kind : {Collective::kBroadcast, Collective::kReduce})
    for (const int m : {64, 257, 512}) {
      Problem problem = problem_of(kind, m, 1, 1 << 22);
      const int depth = problem.host.hosts().tree[0].depth;
      for (int r = 0; r < problem.ranks(); ++r) {
        problem.rank = r;
        std::set<int> peers;
        for (const Step& step :
             find_algorithm(problem, "pipelined_trees").schedule(problem, 0).steps)
          if (step.peer >= 0) peers.insert(step.peer);
        EXPECT_LE(static_cast<int>(peers.size()), r == problem.root ? 65 : 4 * depth)
            << collective_name(kind) << ", rank " << r << " of " << m;
      }
    }
}

// One segment takes the binomial tree: as many rounds as levels, and no more messages.
TEST(PipelinedTrees, ASmallTensorTakesOneTree) {
  for (const Collective kind : {Collective::kBroadcast, Collective::kReduce})
    for (const int m : {2, 7, 64, 513}) {
      const Problem problem = problem_of(kind, m, 1, 3);
      const Algorithm& algorithm = find_algorithm(problem, "pipelined_trees");
      const int depth = problem.host.hosts().tree[0].depth;
      EXPECT_EQ(algorithm.cost(problem).wire_rounds, depth);
      EXPECT_LE(algorithm.cost(problem).wire_messages, depth);
      const Sent sent = sent_by(algorithm, problem);
      EXPECT_EQ(std::accumulate(sent.out.begin(), sent.out.end(), 0.0), 3.0 * (m - 1));
    }
}

}  // namespace
}  // namespace stretto::comm
