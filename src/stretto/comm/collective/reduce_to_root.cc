#include "stretto/comm/collective/builder.h"
#include "stretto/comm/collective/rows.h"
#include "stretto/comm/collective/sum_order.h"

namespace stretto::comm {

Schedule reduce_gather_sum(const Problem& p, int64_t unit) {
  Builder b(p);
  const Part part = unit_of_tensor(p, unit);
  const int64_t count = part.count();
  if (b.me != p.root) {
    b.send(p.root, 0, input(part.begin), count);
    return b.take();
  }
  std::vector<Place> from(b.n);
  Steps received;
  from[b.me] = input(part.begin);
  for (const int peer : b.peers()) {
    from[peer] = b.scratch(count);
    received.push_back(b.receive(peer, 0, from[peer], count));
  }
  sum_ranks(b, from, output(part.begin), count, received);
  return b.take();
}

Schedule reduce_direct(const Problem& p, int64_t unit) {
  Builder b(p);
  const Part whole = unit_of_tensor(p, unit);
  const auto piece = [&](int rank) { return cut(whole, b.n, rank, p.align); };
  const Part mine = piece(b.me);
  const int64_t count = mine.count();
  for (const int peer : b.peers()) b.send(peer, 0, input(piece(peer).begin), piece(peer).count());
  if (!mine.empty()) {
    std::vector<Place> from(b.n);
    Steps received;
    from[b.me] = input(mine.begin);
    for (const int peer : b.peers()) {
      from[peer] = b.scratch(count);
      received.push_back(b.receive(peer, 0, from[peer], count));
    }
    const Place to = b.me == p.root ? output(mine.begin) : b.scratch(count);
    const int32_t summed = sum_ranks(b, from, to, count, received);
    if (b.me != p.root) b.send(p.root, 1, to, count, {&summed, 1});
  }
  if (b.me == p.root)
    for (const int peer : b.peers())
      b.receive(peer, 1, output(piece(peer).begin), piece(peer).count());
  return b.take();
}

Schedule reduce_hierarchical(const Problem& p, int64_t unit) {
  Builder b(p);
  const Part whole = unit_of_tensor(p, unit);
  const Hosts& hosts = b.hosts;
  const int host = hosts.host[b.me], index = hosts.index[b.me], root_host = hosts.host[p.root];
  const auto& neighbours = hosts.members[host];
  const auto share = [&](int h, int member) { return cut(whole, hosts.size(h), member, p.align); };

  if (host == root_host && b.me != p.root) {
    b.send(p.root, 0, input(whole.begin), whole.count());
    return b.take();
  }
  if (host != root_host) {
    for (const int member : Builder::others(index, hosts.size(host)))
      b.send(neighbours[member], 0, input(share(host, member).begin), share(host, member).count());
    const Part mine = share(host, index);
    Place sum = input(mine.begin);
    int32_t summed = -1;
    if (neighbours.size() > 1) {
      std::vector<Source> sources(neighbours.size());
      Steps received;
      sources[index].place = sum;
      for (const int member : Builder::others(index, hosts.size(host))) {
        sources[member].place = b.scratch(mine.count());
        received.push_back(b.receive(neighbours[member], 0, sources[member].place, mine.count()));
      }
      for (size_t i = 1; i < sources.size(); ++i) sources[i].begins_host = false;
      sum = b.scratch(mine.count());
      summed = b.reduce(sources, sum, mine.count(), false, received);
    }
    b.send(p.root, 1, sum, mine.count(), {&summed, 1});
    return b.take();
  }

  std::vector<std::vector<Source>> by_host(static_cast<size_t>(hosts.count()));
  Steps received;
  for (int h = 0; h < hosts.count(); ++h) {
    if (h == root_host) {
      for (const int rank : neighbours) {
        Place place = input(whole.begin);
        if (rank != b.me) {
          place = b.scratch(whole.count());
          received.push_back(b.receive(rank, 0, place, whole.count()));
        }
        by_host[h].push_back({.place = place, .begins_host = rank == neighbours[0]});
      }
      continue;
    }
    const Place place = b.scratch(whole.count());
    for (int member = 0; member < hosts.size(h); ++member) {
      const Part part = share(h, member);
      received.push_back(
          b.receive(hosts.members[h][member], 1, place + (part.begin - whole.begin), part.count()));
    }
    by_host[h] = {{.place = place, .host_sum = hosts.size(h) > 1}};
  }
  sum_hosts(b, by_host, output(whole.begin), whole.count(), received);
  return b.take();
}

Cost reduce_gather_sum_cost(const Problem& p) {
  Cost cost = broadcast_direct_cost(p);
  cost.local_messages = 1;
  cost.local_elements *= p.host.hosts().size(p.host.hosts().host[p.root]) - 1;
  cost.summed_elements = static_cast<double>(p.count) * p.ranks();
  return cost;
}

Cost reduce_direct_cost(const Problem& p) {
  const Hosts& hosts = p.host.hosts();
  const double piece = static_cast<double>(p.count) / p.ranks();
  Cost cost = flat_cost(p, 1, piece);
  const int root_host = hosts.host[p.root], far = p.ranks() - hosts.size(root_host);
  if (far > 0) {
    cost.wire_rounds = 2;
    // Into the root's card: contributions to the pieces of its host, then the others' results.
    cost.wire_messages = std::max<double>(cost.wire_messages, hosts.size(root_host) * far + far);
    cost.wire_elements = cost.wire_messages * piece;
  } else if (p.ranks() > 1) {
    cost.local_rounds = 2;
  }
  cost.summed_elements = static_cast<double>(p.count);
  return cost;
}

Cost reduce_hierarchical_cost(const Problem& p) {
  const Hosts& hosts = p.host.hosts();
  const double count = static_cast<double>(p.count), m = hosts.count();
  const double near = hosts.size(hosts.host[p.root]);
  return {.wire_rounds = 1,
          .local_rounds = 1,
          .wire_messages = (m - 1) * hosts.largest(),
          .wire_elements = (m - 1) * count,
          .local_messages = static_cast<double>(hosts.largest() - 1),
          .local_elements = std::max(1.0, near - 1) * count,
          .summed_elements = (near + m - 1) * count};
}

}  // namespace stretto::comm
