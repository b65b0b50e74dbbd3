// Collectives in which every pair of ranks has its own data and nothing is combined.
#include "stretto/comm/collective/builder.h"
#include "stretto/comm/collective/doubling.h"
#include "stretto/comm/collective/rows.h"

namespace stretto::comm {
Schedule gather_direct(const Problem& p, int64_t unit) {
  Builder b(p);
  const Blocks blocks(p, unit);
  const Place own = input(blocks.part(b.me).begin);
  if (b.me != p.root) {
    b.send(p.root, 0, own, blocks.count(b.me));
    return b.take();
  }
  for (const int peer : b.peers())
    b.receive(peer, 0, output(blocks.unit_begin(peer)), blocks.count(peer));
  b.copy(own, output(blocks.unit_begin(b.me)), blocks.count(b.me));
  return b.take();
}

Schedule scatter_direct(const Problem& p, int64_t unit) {
  Builder b(p);
  const Blocks blocks(p, unit);
  const Place own = output(blocks.part(b.me).begin);
  if (b.me != p.root) {
    b.receive(p.root, 0, own, blocks.count(b.me));
    return b.take();
  }
  for (const int peer : b.peers())
    b.send(peer, 0, input(blocks.unit_begin(peer)), blocks.count(peer));
  b.copy(input(blocks.unit_begin(b.me)), own, blocks.count(b.me));
  return b.take();
}

Schedule all_to_all_direct(const Problem& p, int64_t unit) {
  Builder b(p);
  // What goes to each rank is described by the counts, what comes from it by the receive counts.
  Problem in = p;
  in.counts = p.receive_counts;
  in.displacements = p.receive_displacements;
  const Blocks from(p, unit), to(in, unit);
  for (const int peer : b.peers()) b.send(peer, 0, input(from.unit_begin(peer)), from.count(peer));
  for (const int peer : b.peers()) b.receive(peer, 0, output(to.unit_begin(peer)), to.count(peer));
  b.copy(input(from.unit_begin(b.me)), output(to.unit_begin(b.me)), from.count(b.me));
  return b.take();
}

Schedule barrier_direct(const Problem& p, int64_t) {
  Builder b(p);
  for (const int peer : b.peers()) b.signal(peer, 0);
  for (const int peer : b.peers()) b.await(peer, 0);
  return b.take();
}

Schedule barrier_dissemination(const Problem& p, int64_t) {
  Builder b(p);
  Steps heard;
  for (int round = 0, reach = 1; reach < b.n; ++round, reach *= 2) {
    b.signal((b.me + reach) % b.n, round, heard);
    heard.push_back(b.await((b.me - reach + b.n) % b.n, round));
  }
  return b.take();
}

Cost rooted_direct_cost(const Problem& p) { return broadcast_direct_cost(p); }

Cost all_to_all_direct_cost(const Problem& p) {
  return flat_cost(p, 1, static_cast<double>(total_count(p)) / p.ranks());
}

Cost barrier_direct_cost(const Problem& p) { return flat_cost(p, 1, 0); }

Cost barrier_dissemination_cost(const Problem& p) {
  const double rounds = Doubling{p.ranks()}.rounds();
  Cost cost;
  const Hosts& hosts = p.host.hosts();
  const bool wire = hosts.count() > 1;
  (wire ? cost.wire_rounds : cost.local_rounds) = rounds;
  if (wire)
    cost.wire_messages = hosts.largest() * rounds;
  else
    cost.local_messages = rounds;
  return cost;
}

}  // namespace stretto::comm
