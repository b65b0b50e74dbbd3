#include "stretto/comm/collective/algorithm.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/comm/collective/hosts.h"
#include "stretto/comm/collective/rows.h"
#include "stretto/tune/choose.h"

namespace stretto::comm {
namespace {

constexpr Algorithm kAllReduce[] = {
    {"direct", always_fits, all_reduce_direct, all_reduce_direct_cost},
    {"gather_sum", always_fits, all_reduce_gather_sum, all_reduce_gather_sum_cost},
    {"recursive_doubling", all_reduce_recursive_doubling_unfit, all_reduce_recursive_doubling,
     all_reduce_recursive_doubling_cost},
    {"hierarchical", hierarchical_unfit, all_reduce_hierarchical, all_reduce_hierarchical_cost},
    {"hierarchical_exchange", hierarchical_unfit, all_reduce_hierarchical_exchange,
     all_reduce_hierarchical_exchange_cost},
    {"tree_halving", all_reduce_tree_halving_unfit, all_reduce_tree_halving,
     all_reduce_tree_halving_cost},
    {"tree_doubling", all_reduce_tree_doubling_unfit, all_reduce_tree_doubling,
     all_reduce_tree_doubling_cost},
    {"ring", all_reduce_ring_unfit, all_reduce_ring, all_reduce_ring_cost},
};
constexpr Algorithm kBroadcast[] = {
    {"direct", always_fits, broadcast_direct, broadcast_direct_cost},
    {"tree", always_fits, broadcast_tree, broadcast_tree_cost},
    {"ring", always_fits, broadcast_ring, broadcast_ring_cost},
    {"pipelined_trees", broadcast_pipelined_trees_unfit, broadcast_pipelined_trees,
     broadcast_pipelined_trees_cost},
};
constexpr Algorithm kAllGather[] = {
    {"direct", always_fits, all_gather_direct, all_gather_direct_cost},
    {"hierarchical", hierarchical_unfit, all_gather_hierarchical, all_gather_hierarchical_cost},
    {"ring", always_fits, all_gather_ring, all_gather_ring_cost},
    {"recursive_doubling", always_fits, all_gather_recursive_doubling,
     all_gather_recursive_doubling_cost},
};
constexpr Algorithm kReduceScatter[] = {
    {"direct", always_fits, reduce_scatter_direct, reduce_scatter_direct_cost},
    {"hierarchical", hierarchical_unfit, reduce_scatter_hierarchical,
     reduce_scatter_hierarchical_cost},
    {"tree_halving", reduce_scatter_tree_halving_unfit, reduce_scatter_tree_halving,
     reduce_scatter_tree_halving_cost},
    {"ring", reduce_scatter_ring_unfit, reduce_scatter_ring, reduce_scatter_ring_cost},
};
constexpr Algorithm kReduce[] = {
    {"direct", always_fits, reduce_direct, reduce_direct_cost},
    {"gather_sum", always_fits, reduce_gather_sum, reduce_gather_sum_cost},
    {"hierarchical", hierarchical_unfit, reduce_hierarchical, reduce_hierarchical_cost},
    {"pipelined_trees", reduce_pipelined_trees_unfit, reduce_pipelined_trees,
     reduce_pipelined_trees_cost},
};
constexpr Algorithm kGather[] = {{"direct", always_fits, gather_direct, rooted_direct_cost}};
constexpr Algorithm kScatter[] = {{"direct", always_fits, scatter_direct, rooted_direct_cost}};
constexpr Algorithm kAllToAll[] = {
    {"direct", always_fits, all_to_all_direct, all_to_all_direct_cost}};
constexpr Algorithm kBarrier[] = {
    {"direct", always_fits, barrier_direct, barrier_direct_cost},
    {"dissemination", always_fits, barrier_dissemination, barrier_dissemination_cost},
};

// Of a cost for so many units, on hosts whose ranks share what goes through the card.
double seconds_of(const Cost& cost, int64_t units, int ranks_of_host, const LinkModel& link,
                  const ElementBytes& bytes) {
  const double wire = cost.wire_elements * bytes.wire * link.wire_byte_s;
  // Processors copy what crosses the network, which on a fast one is most of the work.
  const double copied = cost.wire_elements / ranks_of_host * bytes.wire;
  const double local = (cost.local_elements * bytes.local + copied) * link.local_byte_s +
                       cost.summed_elements * bytes.local * link.sum_byte_s;
  const double fill = cost.wire_fill_elements * bytes.wire * link.wire_byte_s;
  const auto all = static_cast<double>(units);
  // Units overlap the network with the processor, but for one, and never quite; rounds, which wait
  // for each other, do not overlap.
  const double alone = std::max(0.1, 1 / all);
  return cost.wire_rounds * link.wire_latency_s + cost.local_rounds * link.local_latency_s +
         all * (cost.wire_messages * link.wire_message_s +
                cost.local_messages * link.local_message_s) +
         fill + std::max(wire, local) + alone * std::min(wire, local);
}

}  // namespace

std::span<const Algorithm> algorithms(Collective kind) {
  switch (kind) {
    case Collective::kAllReduce:
      return kAllReduce;
    case Collective::kBroadcast:
      return kBroadcast;
    case Collective::kAllGather:
      return kAllGather;
    case Collective::kReduceScatter:
      return kReduceScatter;
    case Collective::kReduce:
      return kReduce;
    case Collective::kGather:
      return kGather;
    case Collective::kScatter:
      return kScatter;
    case Collective::kAllToAll:
      return kAllToAll;
    case Collective::kBarrier:
      return kBarrier;
  }
  return {};
}

const Algorithm& find_algorithm(const Problem& problem, std::string_view name) {
  std::string names;
  for (const Algorithm& algorithm : algorithms(problem.kind)) {
    if (algorithm.name == name) {
      const std::string reason = algorithm.unfit(problem);
      if (!reason.empty())
        throw_unsupported("{}: algorithm {} cannot do it: {}", collective_name(problem.kind), name,
                          reason);
      return algorithm;
    }
    names += names.empty() ? "" : ", ";
    names += algorithm.name;
  }
  throw_invalid("{}: algorithm: expected one of {}, got '{}'", collective_name(problem.kind), names,
                name);
}

std::string always_fits(const Problem&) { return ""; }

Cost flat_cost(const Problem& problem, int rounds, double elements) {
  const Hosts& hosts = problem.host.hosts();
  const int n = problem.ranks();
  double crossing = 0;
  for (int h = 0; h < hosts.count(); ++h) {
    const double k = hosts.size(h);
    crossing = std::max(crossing, k * (n - k));
  }
  const double neighbours = hosts.largest() - 1;
  return {.wire_rounds = hosts.count() > 1 ? 1.0 * rounds : 0,
          .local_rounds = hosts.count() == 1 && n > 1 ? 1.0 * rounds : 0,
          .wire_messages = rounds * crossing,
          .wire_elements = rounds * crossing * elements,
          .local_messages = rounds * neighbours,
          .local_elements = rounds * neighbours * elements};
}

double estimate_s(const Problem& problem, const Algorithm& algorithm, const LinkModel& link,
                  const ElementBytes& bytes) {
  return seconds_of(algorithm.cost(problem), std::max<int64_t>(1, unit_count(problem)),
                    problem.host.hosts().largest(), link, bytes);
}

const Algorithm& choose_algorithm(const Problem& problem, const LinkModel& link,
                                  const ElementBytes& bytes) {
  const std::span<const Algorithm> rows = algorithms(problem.kind);
  if (rows.size() == 1) return rows[0];
  std::vector<double> estimates(rows.size(), std::numeric_limits<double>::infinity());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].unfit(problem).empty()) estimates[i] = estimate_s(problem, rows[i], link, bytes);
  }
  // The first fits every problem, so there is one.
  return rows[static_cast<size_t>(tune::choose(estimates))];
}

std::vector<std::string> algorithms_to_try(const Problem& problem, const LinkModel& link) {
  constexpr double kHopeless = 2.2;
  const auto seconds = [&](const Algorithm& a) {
    return seconds_of(a.cost(problem), 1, problem.host.hosts().largest(), link, {});
  };
  const double best = seconds(choose_algorithm(problem, link, {}));
  std::vector<std::string> names;
  for (const Algorithm& a : algorithms(problem.kind))
    if (a.unfit(problem).empty() && seconds(a) <= kHopeless * best) names.emplace_back(a.name);
  return names;
}

}  // namespace stretto::comm
