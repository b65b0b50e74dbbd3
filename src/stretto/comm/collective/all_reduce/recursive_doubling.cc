#include "stretto/comm/collective/builder.h"
#include "stretto/comm/collective/collect.h"
#include "stretto/comm/collective/doubling.h"
#include "stretto/comm/collective/rows.h"
#include "stretto/comm/collective/sum_order.h"

namespace stretto::comm {
namespace {

// Members of the doubling are positions in the order of summation, so that early rounds stay inside
// hosts and what is combined stays in order.
struct Positions {
  explicit Positions(const Builder& b) : doubling{b.n}, mine(b.hosts.position[b.me]) {}
  Doubling doubling;
  int mine;
};

Schedule combine_each_round(Builder& b, Part part) {
  const Positions at(b);
  const int rounds = at.doubling.rounds();
  const int64_t count = part.count();
  Place held = input(part.begin);
  Steps ready, sent_input;
  for (int round = 0; round < rounds; ++round) {
    for (const int target : at.doubling.targets(at.mine, round)) {
      const int32_t sent = b.send(b.hosts.order[target], round, held, count, ready);
      if (held.buffer == Buffer::kInput) sent_input.push_back(sent);
    }
    const int source = at.doubling.source(at.mine, round);
    if (source < 0) continue;
    const Place got = b.scratch(count);
    ready.push_back(b.receive(b.hosts.order[source], round, got, count));
    const bool mine_first = at.mine < source;
    const Source pair[] = {{mine_first ? held : got}, {mine_first ? got : held}};
    const Place sum = b.scratch(count);
    ready = {b.reduce(pair, sum, count, false, ready)};
    held = sum;
  }
  const Source total[] = {{held}};
  ready.insert(ready.end(), sent_input.begin(), sent_input.end());
  b.reduce(total, output(part.begin), count, true, ready);
  return b.take();
}

Schedule collect_then_sum(Builder& b, Part part) {
  const int64_t count = part.count();
  const Collected all = collect_blocks(b, input(part.begin), [&](int) { return count; });
  sum_ranks(b, all.block, output(part.begin), count, all.ready);
  return b.take();
}

}  // namespace

Schedule all_reduce_recursive_doubling(const Problem& p, int64_t unit) {
  Builder b(p);
  const Part part = unit_of_tensor(p, unit);
  return p.exact ? combine_each_round(b, part) : collect_then_sum(b, part);
}

std::string all_reduce_recursive_doubling_unfit(const Problem& p) {
  return p.coded ? "passes on sums of several ranks, which would be encoded again and again" : "";
}

Cost all_reduce_recursive_doubling_cost(const Problem& p) {
  const auto count = static_cast<double>(p.count);
  Cost cost = doubling_cost(p, count, p.exact);
  cost.summed_elements = count * (p.exact ? 2 * Doubling{p.ranks()}.rounds() + 1 : p.ranks() + 1);
  return cost;
}

}  // namespace stretto::comm
