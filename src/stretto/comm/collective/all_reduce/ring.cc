#include "stretto/comm/collective/ring.h"

#include "stretto/comm/collective/rows.h"

namespace stretto::comm {

Schedule all_reduce_ring(const Problem& p, int64_t unit) {
  Builder b(p);
  const Ring ring(b);
  const Part whole = unit_of_tensor(p, unit);
  const auto piece = [&](int position) {
    return cut(whole, b.n, ((position % b.n) + b.n) % b.n, p.align);
  };

  // In step s, the partial sum of piece mine - s goes on, and that of the piece before it arrives.
  Part held = piece(ring.mine);
  Place partial = input(held.begin);
  int32_t ready = -1;
  for (int s = 0; s + 1 < b.n; ++s) {
    b.send(ring.next(), s, partial, held.count(), {&ready, 1});
    held = piece(ring.mine - s - 1);
    const Place got = b.scratch(held.count());
    const int32_t received = b.receive(ring.previous(), s, got, held.count());
    const Source pair[] = {{got}, {input(held.begin)}};
    const bool last = s + 2 == b.n;
    partial = last ? output(held.begin) : got;
    ready = b.reduce(pair, partial, held.count(), last, {&received, 1});
  }
  if (b.n == 1) {
    const Source own[] = {{input(whole.begin)}};
    b.reduce(own, output(whole.begin), whole.count(), true, {});
  }
  for (int s = 0; s + 1 < b.n; ++s) {
    b.send(ring.next(), b.n + s, output(held.begin), held.count(), {&ready, 1});
    held = piece(ring.mine - s);
    ready = b.receive(ring.previous(), b.n + s, output(held.begin), held.count());
  }
  return b.take();
}

std::string all_reduce_ring_unfit(const Problem& p) {
  if (p.coded) return "carries partial sums, which would be encoded again and again";
  if (!p.exact) return "adds in an order that depends on the chunk, which rounding would show";
  return "";
}

Cost all_reduce_ring_cost(const Problem& p) {
  const int n = p.ranks();
  const bool wire = p.host.hosts().count() > 1;
  const double rounds = 2.0 * (n - 1), elements = rounds * static_cast<double>(p.count) / n;
  Cost cost;
  (wire ? cost.wire_rounds : cost.local_rounds) = rounds;
  (wire ? cost.wire_messages : cost.local_messages) = rounds;
  cost.wire_elements = wire ? elements : 0;
  cost.local_elements = elements;
  cost.summed_elements = elements;
  return cost;
}

}  // namespace stretto::comm
