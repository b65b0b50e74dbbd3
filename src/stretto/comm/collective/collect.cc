#include "stretto/comm/collective/collect.h"

#include <algorithm>

#include "stretto/comm/collective/doubling.h"

namespace stretto::comm {

Collected collect_blocks(Builder& b, Place own, const std::function<int64_t(int rank)>& count_of) {
  // Members of the doubling are positions in the order of summation, so that early rounds stay
  // inside hosts.
  const Doubling doubling{b.n};
  const int mine = b.hosts.position[b.me];
  std::vector<int64_t> begin = {0};  // by position
  for (const int rank : b.hosts.order) begin.push_back(begin.back() + count_of(rank));
  const Place all = b.scratch(begin.back());
  const auto count = [&](Block block) { return begin[block.end] - begin[block.begin]; };

  Collected result;
  for (int rank = 0; rank < b.n; ++rank)
    result.block.push_back(all + begin[b.hosts.position[rank]]);
  result.ready = {b.copy(own, result.block[b.me], count({mine, mine + 1}))};
  for (int round = 0; round < doubling.rounds(); ++round) {
    const Block held = doubling.held(mine, round);
    for (const int target : doubling.targets(mine, round))
      b.send(b.hosts.order[target], round, all + begin[held.begin], count(held), result.ready);
    const int source = doubling.source(mine, round);
    if (source < 0) continue;
    const Block got = doubling.sibling(mine, round);
    result.ready.push_back(
        b.receive(b.hosts.order[source], round, all + begin[got.begin], count(got)));
  }
  return result;
}

Cost doubling_cost(const Problem& p, double block, bool combined) {
  const Hosts& hosts = p.host.hosts();
  const Doubling doubling{p.ranks()};
  Cost cost;
  for (int round = 0; round < doubling.rounds(); ++round) {
    std::vector<double> out(hosts.count()), in(hosts.count()), messages(hosts.count());
    double local = 0;
    for (int i = 0; i < p.ranks(); ++i) {
      const int source = doubling.source(i, round);
      if (source < 0) continue;
      const double elements = block * (combined ? 1 : doubling.sibling(i, round).count());
      const int from = hosts.host[hosts.order[source]], to = hosts.host[hosts.order[i]];
      if (from == to) {
        local = elements;
        continue;
      }
      out[from] += elements;
      ++messages[from];
      in[to] += elements;
    }
    const double wire = std::max(*std::max_element(out.begin(), out.end()),
                                 *std::max_element(in.begin(), in.end()));
    (wire > 0 ? cost.wire_rounds : cost.local_rounds) += 1;
    cost.wire_messages += *std::max_element(messages.begin(), messages.end());
    cost.wire_elements += wire;
    if (local > 0) cost.local_messages += 1;
    cost.local_elements += local;
  }
  return cost;
}

}  // namespace stretto::comm
