#include <algorithm>

#include "stretto/comm/collective/doubling.h"
#include "stretto/comm/collective/ring.h"
#include "stretto/comm/collective/rows.h"

namespace stretto::comm {
namespace {

// Where the root keeps the tensor it sends; the output elsewhere.
Place held(const Builder& b, Part part) {
  return b.me == b.problem.root ? input(part.begin) : output(part.begin);
}

void keep_own(Builder& b, Part part) {
  if (b.me == b.problem.root) b.copy(input(part.begin), output(part.begin), part.count());
}

// The rank that represents each host in the tree: the root, or the lowest rank.
int leader(const Builder& b, int host) {
  const int root = b.problem.root;
  return b.hosts.host[root] == host ? root : b.hosts.members[host][0];
}

}  // namespace

Schedule broadcast_direct(const Problem& p, int64_t unit) {
  Builder b(p);
  const Part part = unit_of_tensor(p, unit);
  if (b.me != p.root) {
    b.receive(p.root, 0, output(part.begin), part.count());
    return b.take();
  }
  for (const int peer : b.peers()) b.send(peer, 0, input(part.begin), part.count());
  keep_own(b, part);
  return b.take();
}

Schedule broadcast_tree(const Problem& p, int64_t unit) {
  Builder b(p);
  const Part part = unit_of_tensor(p, unit);
  const int64_t count = part.count();
  const int m = b.hosts.count(), first = b.hosts.host[p.root], host = b.hosts.host[b.me];
  const int position = (host - first + m) % m;
  const int lead = leader(b, host);
  int32_t ready = -1;
  if (b.me == lead) {
    // In round r, the 2^r leaders that have it send to the next 2^r; the largest subtree first.
    int reach = 1;
    while (reach <= position) reach *= 2;
    if (position > 0)
      ready = b.receive(leader(b, (position - reach / 2 + first) % m), 0, held(b, part), count);
    for (; position + reach < m; reach *= 2)
      b.send(leader(b, (position + reach + first) % m), 0, held(b, part), count, {&ready, 1});
    for (const int i : Builder::others(b.hosts.index[b.me], b.hosts.size(host)))
      b.send(b.hosts.members[host][i], 0, held(b, part), count, {&ready, 1});
  } else {
    b.receive(lead, 0, output(part.begin), count);
  }
  keep_own(b, part);
  return b.take();
}

Schedule broadcast_ring(const Problem& p, int64_t unit) {
  Builder b(p);
  const Ring chain(b, p.root);
  const Part part = unit_of_tensor(p, unit);
  int32_t ready = -1;
  if (chain.mine > 0) ready = b.receive(chain.previous(), 0, output(part.begin), part.count());
  if (chain.mine + 1 < b.n) b.send(chain.next(), 0, held(b, part), part.count(), {&ready, 1});
  keep_own(b, part);
  return b.take();
}

Cost broadcast_direct_cost(const Problem& p) {
  const Hosts& hosts = p.host.hosts();
  const double n = p.ranks(), near = hosts.size(hosts.host[p.root]);
  const double count = static_cast<double>(p.count);
  return {.wire_rounds = n > near ? 1.0 : 0.0,
          .local_rounds = n == near && n > 1 ? 1.0 : 0.0,
          .wire_messages = n - near,
          .wire_elements = (n - near) * count,
          .local_messages = near - 1,
          .local_elements = near > 1 ? count : 0};
}

Cost broadcast_tree_cost(const Problem& p) {
  const Hosts& hosts = p.host.hosts();
  const double rounds = Doubling{hosts.count()}.rounds(), near = hosts.largest();
  const double count = static_cast<double>(p.count);
  return {.wire_rounds = rounds,
          .local_rounds = near > 1 ? 1.0 : 0.0,
          .wire_messages = rounds,
          .wire_elements = rounds * count,
          .local_messages = near - 1,
          .local_elements = near > 1 ? count : 0};
}

Cost broadcast_ring_cost(const Problem& p) {
  const Hosts& hosts = p.host.hosts();
  const double m = hosts.count(), count = static_cast<double>(p.count);
  const double units = static_cast<double>(std::max<int64_t>(1, unit_count(p)));
  // The last rank has its first unit after the whole chain, and every unit crosses every card.
  return {.wire_rounds = m - 1,
          .local_rounds = p.ranks() - m,
          .wire_messages = m > 1 ? 1.0 : 0.0,
          .wire_elements = m > 1 ? count : 0,
          .wire_fill_elements = m > 2 ? (m - 2) * count / units : 0,
          .local_messages = p.ranks() > m ? 1.0 : 0.0,
          .local_elements = p.ranks() > m ? count : 0};
}

}  // namespace stretto::comm
