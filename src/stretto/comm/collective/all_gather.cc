#include <algorithm>

#include "stretto/comm/collective/collect.h"
#include "stretto/comm/collective/ring.h"
#include "stretto/comm/collective/rows.h"

namespace stretto::comm {
namespace {

struct Output : Blocks {
  Output(Builder& builder, int64_t unit) : Blocks(builder.problem, unit), b(builder) {}
  Builder& b;

  Place place(int rank) const { return output(unit_begin(rank)); }
  Place own() const { return input(part(b.me).begin); }
  void keep_own() const { b.copy(own(), place(b.me), count(b.me)); }
};

double total(const Problem& p) { return static_cast<double>(total_count(p)); }

}  // namespace

Schedule all_gather_direct(const Problem& p, int64_t unit) {
  Builder b(p);
  const Output blocks(b, unit);
  for (const int peer : b.peers()) b.send(peer, 0, blocks.own(), blocks.count(b.me));
  for (const int peer : b.peers()) b.receive(peer, 0, blocks.place(peer), blocks.count(peer));
  blocks.keep_own();
  return b.take();
}

Schedule all_gather_ring(const Problem& p, int64_t unit) {
  Builder b(p);
  const Ring ring(b);
  const Output blocks(b, unit);
  Place held = blocks.own();
  int32_t ready = -1;
  for (int s = 0; s + 1 < b.n; ++s) {
    b.send(ring.next(), s, held, blocks.count(ring.rank(ring.mine - s)), {&ready, 1});
    const int owner = ring.rank(ring.mine - s - 1);
    held = blocks.place(owner);
    ready = b.receive(ring.previous(), s, held, blocks.count(owner));
  }
  blocks.keep_own();
  return b.take();
}

Schedule all_gather_hierarchical(const Problem& p, int64_t unit) {
  Builder b(p);
  const Output blocks(b, unit);
  const Hosts& hosts = b.hosts;
  const int host = hosts.host[b.me], index = hosts.index[b.me];
  // Block r crosses to one rank of each host; r is the tag.
  const auto carrier = [&](int owner, int to) {
    return hosts.members[to][hosts.index[owner] % hosts.size(to)];
  };
  for (const int h : Builder::others(host, hosts.count()))
    b.send(carrier(b.me, h), b.me, blocks.own(), blocks.count(b.me));
  for (const int i : Builder::others(index, hosts.size(host)))
    b.send(hosts.members[host][i], b.me, blocks.own(), blocks.count(b.me));
  for (const int owner : b.peers()) {
    const int64_t count = blocks.count(owner);
    const bool near = hosts.host[owner] == host;
    const int from = near || carrier(owner, host) == b.me ? owner : carrier(owner, host);
    const int32_t received = b.receive(from, owner, blocks.place(owner), count);
    if (near || from != owner) continue;
    for (const int i : Builder::others(index, hosts.size(host)))
      b.send(hosts.members[host][i], owner, blocks.place(owner), count, {&received, 1});
  }
  blocks.keep_own();
  return b.take();
}

Schedule all_gather_recursive_doubling(const Problem& p, int64_t unit) {
  Builder b(p);
  const Output blocks(b, unit);
  const Collected all =
      collect_blocks(b, blocks.own(), [&](int rank) { return blocks.count(rank); });
  // Blocks that are neighbours in both places are copied together.
  const std::vector<int>& order = b.hosts.order;
  for (int begin = 0, end; begin < b.n; begin = end) {
    const Place from = all.block[order[begin]], to = blocks.place(order[begin]);
    int64_t count = 0;
    for (end = begin; end < b.n && blocks.place(order[end]).offset == to.offset + count; ++end)
      count += blocks.count(order[end]);
    b.copy(from, to, count, all.ready);
  }
  return b.take();
}

Cost all_gather_recursive_doubling_cost(const Problem& p) {
  Cost cost = doubling_cost(p, total(p) / p.ranks(), false);
  cost.local_elements += total(p);
  return cost;
}

Cost all_gather_direct_cost(const Problem& p) { return flat_cost(p, 1, total(p) / p.ranks()); }

Cost all_gather_ring_cost(const Problem& p) {
  const int n = p.ranks(), m = p.host.hosts().count();
  const double elements = total(p) * (n - 1) / n;
  Cost cost;
  (m > 1 ? cost.wire_rounds : cost.local_rounds) = n - 1;
  (m > 1 ? cost.wire_messages : cost.local_messages) = n - 1;
  cost.wire_elements = m > 1 ? elements : 0;
  cost.local_elements = elements;
  return cost;
}

Cost all_gather_hierarchical_cost(const Problem& p) {
  const Hosts& hosts = p.host.hosts();
  const double n = p.ranks(), m = hosts.count(), k = hosts.largest();
  const double block = total(p) / n;
  double wire = 0;  // in: every block of others once; out: own blocks to every other host
  for (int h = 0; h < hosts.count(); ++h)
    wire = std::max({wire, n - hosts.size(h), hosts.size(h) * (m - 1.0)});
  return {.wire_rounds = 1,
          .local_rounds = 1,
          .wire_messages = wire,
          .wire_elements = wire * block,
          .local_messages = (k - 1) * m,
          .local_elements = (n - 1) * block};
}

}  // namespace stretto::comm
