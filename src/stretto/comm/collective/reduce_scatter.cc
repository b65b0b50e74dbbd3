#include <algorithm>

#include "stretto/comm/collective/ring.h"
#include "stretto/comm/collective/rows.h"
#include "stretto/comm/collective/sum_order.h"

namespace stretto::comm {
namespace {

struct Input : Blocks {
  Input(const Problem& problem, int64_t unit) : Blocks(problem, unit), me(problem.rank) {}
  int me;

  Place place(int rank) const { return input(unit_begin(rank)); }
  Place result() const { return output(part(me).begin); }
};

double total(const Problem& p) { return static_cast<double>(total_count(p)); }

}  // namespace

Schedule reduce_scatter_direct(const Problem& p, int64_t unit) {
  Builder b(p);
  const Input blocks(p, unit);
  for (const int peer : b.peers()) b.send(peer, 0, blocks.place(peer), blocks.count(peer));
  std::vector<Place> from(b.n);
  Steps received;
  from[b.me] = blocks.place(b.me);
  for (const int peer : b.peers()) {
    from[peer] = b.scratch(blocks.count(b.me));
    received.push_back(b.receive(peer, 0, from[peer], blocks.count(b.me)));
  }
  sum_ranks(b, from, blocks.result(), blocks.count(b.me), received);
  return b.take();
}

Schedule reduce_scatter_hierarchical(const Problem& p, int64_t unit) {
  Builder b(p);
  const Input blocks(p, unit);
  const Hosts& hosts = b.hosts;
  const int host = hosts.host[b.me];
  const auto& neighbours = hosts.members[host];
  const auto carrier = [&](int owner, int from) {
    return hosts.members[from][hosts.index[owner] % hosts.size(from)];
  };
  // Tag 2 r: a rank's contribution to block r, inside a host; 2 r + 1: a host's sum of block r.
  for (const int owner : b.peers()) {
    const bool near = hosts.host[owner] == host;
    const int to = near ? owner : carrier(owner, host);
    if (to != b.me) {
      b.send(to, 2 * owner, blocks.place(owner), blocks.count(owner));
      continue;
    }
    if (neighbours.size() == 1) {
      b.send(owner, 2 * owner + 1, blocks.place(owner), blocks.count(owner));
      continue;
    }
    std::vector<Source> sources;
    Steps received;
    for (const int rank : neighbours) {
      Place place = blocks.place(owner);
      if (rank != b.me) {
        place = b.scratch(blocks.count(owner));
        received.push_back(b.receive(rank, 2 * owner, place, blocks.count(owner)));
      }
      sources.push_back({.place = place, .begins_host = sources.empty()});
    }
    const Place sum = b.scratch(blocks.count(owner));
    const int32_t summed = b.reduce(sources, sum, blocks.count(owner), false, received);
    b.send(owner, 2 * owner + 1, sum, blocks.count(owner), {&summed, 1});
  }

  const int64_t count = blocks.count(b.me);
  std::vector<std::vector<Source>> by_host(static_cast<size_t>(hosts.count()));
  Steps received;
  for (int h = 0; h < hosts.count(); ++h) {
    if (h != host) {
      const Place place = b.scratch(count);
      received.push_back(b.receive(carrier(b.me, h), 2 * b.me + 1, place, count));
      by_host[h] = {{.place = place, .host_sum = hosts.size(h) > 1}};
      continue;
    }
    for (const int rank : neighbours) {
      Place place = blocks.place(b.me);
      if (rank != b.me) {
        place = b.scratch(count);
        received.push_back(b.receive(rank, 2 * b.me, place, count));
      }
      by_host[h].push_back({.place = place, .begins_host = rank == neighbours[0]});
    }
  }
  sum_hosts(b, by_host, blocks.result(), count, received);
  return b.take();
}

Schedule reduce_scatter_ring(const Problem& p, int64_t unit) {
  Builder b(p);
  const Ring ring(b);
  const Input blocks(p, unit);
  // The sum for the rank at position x starts at position x + 1 and goes around the ring to x.
  Place partial = blocks.place(ring.previous());
  int32_t ready = -1;
  for (int s = 0; s + 1 < b.n; ++s) {
    b.send(ring.next(), s, partial, blocks.count(ring.rank(ring.mine - 1 - s)), {&ready, 1});
    const int owner = ring.rank(ring.mine - 2 - s);
    const int64_t count = blocks.count(owner);
    const Place got = b.scratch(count);
    const int32_t received = b.receive(ring.previous(), s, got, count);
    const Source pair[] = {{got}, {blocks.place(owner)}};
    const bool last = s + 2 == b.n;
    partial = last ? blocks.result() : got;
    ready = b.reduce(pair, partial, count, last, {&received, 1});
  }
  if (b.n == 1) {
    const Source own[] = {{blocks.place(0)}};
    b.reduce(own, blocks.result(), blocks.count(0), true, {});
  }
  return b.take();
}

std::string reduce_scatter_ring_unfit(const Problem& p) {
  return p.exact ? "" : "adds in an order that depends on the block, which rounding would show";
}

Cost reduce_scatter_direct_cost(const Problem& p) {
  Cost cost = flat_cost(p, 1, total(p) / p.ranks());
  cost.summed_elements = total(p);
  return cost;
}

Cost reduce_scatter_hierarchical_cost(const Problem& p) {
  const Hosts& hosts = p.host.hosts();
  const double n = p.ranks(), m = hosts.count(), k = hosts.largest();
  const double block = total(p) / n;
  double wire = 0;  // out: a sum for every rank elsewhere; in: from every other host for own ranks
  for (int h = 0; h < hosts.count(); ++h)
    wire = std::max({wire, n - hosts.size(h), hosts.size(h) * (m - 1.0)});
  return {.wire_rounds = 1,
          .local_rounds = 1,
          .wire_messages = wire,
          .wire_elements = wire * block,
          .local_messages = (k - 1) * m,
          .local_elements = (k - 1) * m * block,
          .summed_elements = (k * m + m) * block};
}

Cost reduce_scatter_ring_cost(const Problem& p) {
  Cost cost = all_gather_ring_cost(p);
  cost.summed_elements = cost.local_elements;
  return cost;
}

}  // namespace stretto::comm
