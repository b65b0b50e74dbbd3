// Collectives in which every pair of ranks has its own data and nothing is combined.
#include "stretto/comm/collective/builder.h"
#include "stretto/comm/collective/doubling.h"
#include "stretto/comm/collective/rows.h"

namespace stretto::comm {
namespace {

Part block_part(const Problem& p, int64_t unit, int rank) {
  return unit_of_block(p, unit, block_count(p, rank));
}

}  // namespace

Schedule gather_direct(const Problem& p, int64_t unit) {
  Builder b(p);
  const Part mine = block_part(p, unit, b.me);
  if (b.me != p.root) {
    b.send(p.root, 0, input(mine.begin), mine.count());
    return b.take();
  }
  for (const int peer : b.peers()) {
    const Part theirs = block_part(p, unit, peer);
    b.receive(peer, 0, output(block_begin(p, peer) + theirs.begin), theirs.count());
  }
  b.copy(input(mine.begin), output(block_begin(p, b.me) + mine.begin), mine.count());
  return b.take();
}

Schedule scatter_direct(const Problem& p, int64_t unit) {
  Builder b(p);
  const Part mine = block_part(p, unit, b.me);
  if (b.me != p.root) {
    b.receive(p.root, 0, output(mine.begin), mine.count());
    return b.take();
  }
  for (const int peer : b.peers()) {
    const Part theirs = block_part(p, unit, peer);
    b.send(peer, 0, input(block_begin(p, peer) + theirs.begin), theirs.count());
  }
  b.copy(input(block_begin(p, b.me) + mine.begin), output(mine.begin), mine.count());
  return b.take();
}

Schedule all_to_all_direct(const Problem& p, int64_t unit) {
  Builder b(p);
  // What goes to each rank is described by the counts, what comes from it by the receive counts.
  Problem in = p;
  in.counts = p.receive_counts;
  in.displacements = p.receive_displacements;
  const auto part = [&](const Problem& side, int peer) {
    return unit_of_block(p, unit, block_count(side, peer));
  };
  const auto from = [&](int peer) { return input(block_begin(p, peer) + part(p, peer).begin); };
  const auto to = [&](int peer) { return output(block_begin(in, peer) + part(in, peer).begin); };
  for (const int peer : b.peers()) b.send(peer, 0, from(peer), part(p, peer).count());
  for (const int peer : b.peers()) b.receive(peer, 0, to(peer), part(in, peer).count());
  b.copy(from(b.me), to(b.me), part(p, b.me).count());
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
