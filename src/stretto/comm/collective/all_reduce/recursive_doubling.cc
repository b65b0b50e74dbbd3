#include "stretto/comm/collective/builder.h"
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
  const Positions at(b);
  const int64_t count = part.count();
  const Place all = b.scratch(count * b.n);
  const auto place = [&](int position) { return all + position * count; };
  Steps ready = {b.copy(input(part.begin), place(at.mine), count)};
  for (int round = 0; round < at.doubling.rounds(); ++round) {
    const Block held = at.doubling.held(at.mine, round);
    for (const int target : at.doubling.targets(at.mine, round))
      b.send(b.hosts.order[target], round, place(held.begin), held.count() * count, ready);
    const int source = at.doubling.source(at.mine, round);
    if (source < 0) continue;
    const Block got = at.doubling.sibling(at.mine, round);
    ready.push_back(b.receive(b.hosts.order[source], round, place(got.begin), got.count() * count));
  }
  std::vector<Place> from(b.n);
  for (int i = 0; i < b.n; ++i) from[b.hosts.order[i]] = place(i);
  sum_ranks(b, from, output(part.begin), count, ready);
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
  const Hosts& hosts = p.host.hosts();
  const Doubling doubling{p.ranks()};
  Cost cost;
  for (int round = 0; round < doubling.rounds(); ++round) {
    std::vector<double> out(hosts.count()), in(hosts.count()), messages(hosts.count());
    double local = 0;
    for (int i = 0; i < p.ranks(); ++i) {
      const int source = doubling.source(i, round);
      if (source < 0) continue;
      const double elements =
          static_cast<double>(p.count) * (p.exact ? 1 : doubling.sibling(i, round).count());
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
  cost.summed_elements =
      static_cast<double>(p.count) * (p.exact ? 2 * doubling.rounds() + 1 : p.ranks() + 1);
  return cost;
}

}  // namespace stretto::comm
