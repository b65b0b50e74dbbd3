#include "stretto/comm/collective/builder.h"
#include "stretto/comm/collective/rows.h"
#include "stretto/comm/collective/sum_order.h"

namespace stretto::comm {

Schedule all_reduce_direct(const Problem& p, int64_t unit) {
  Builder b(p);
  const Part whole = unit_of_tensor(p, unit);
  const auto piece = [&](int rank) { return cut(whole, b.n, rank, p.align); };
  const Part mine = piece(b.me);
  const int64_t count = mine.count();
  const bool coded = p.coded && b.n > 1;

  for (const int peer : b.peers()) {
    const Part theirs = piece(peer);
    if (theirs.empty()) continue;
    Place from = input(theirs.begin);
    Steps before;
    if (coded) {
      const Place slot = b.slot(theirs.count());
      before = {b.encode(from, slot, theirs.count(), false)};
      from = slot;
    }
    b.send(peer, 0, from, theirs.count(), before);
  }

  if (!mine.empty()) {
    std::vector<Place> from(b.n);
    from[b.me] = input(mine.begin);
    Steps received;
    for (const int peer : b.peers()) {
      from[peer] = coded ? b.slot(count) : b.scratch(count);
      received.push_back(b.receive(peer, 0, from[peer], count));
    }
    int32_t ready = sum_ranks(b, from, output(mine.begin), count, received);
    Place result = output(mine.begin);
    if (coded) {
      result = b.slot(count);
      ready = b.encode(output(mine.begin), result, count, true, {&ready, 1});
    }
    for (const int peer : b.peers()) b.send(peer, 1, result, count, {&ready, 1});
  }

  for (const int peer : b.peers()) {
    const Part theirs = piece(peer);
    if (theirs.empty()) continue;
    if (!coded) {
      b.receive(peer, 1, output(theirs.begin), theirs.count());
      continue;
    }
    const Place slot = b.slot(theirs.count());
    const int32_t received = b.receive(peer, 1, slot, theirs.count());
    b.decode(slot, output(theirs.begin), theirs.count(), {&received, 1});
  }
  return b.take();
}

Cost all_reduce_direct_cost(const Problem& p) {
  Cost cost = flat_cost(p, 2, static_cast<double>(p.count) / p.ranks());
  cost.summed_elements = static_cast<double>(p.count);
  return cost;
}

}  // namespace stretto::comm
