#include "stretto/comm/collective/builder.h"
#include "stretto/comm/collective/rows.h"
#include "stretto/comm/collective/sum_order.h"

namespace stretto::comm {

Schedule all_reduce_gather_sum(const Problem& p, int64_t unit) {
  Builder b(p);
  const Part part = unit_of_tensor(p, unit);
  const int64_t count = part.count();
  std::vector<Place> from(b.n);
  Steps before_sum, before_send;
  from[b.me] = input(part.begin);
  if (p.coded && b.n > 1) {
    // The own contribution is decoded too, so that all ranks add the same values.
    from[b.me] = b.slot(count);
    before_send = before_sum = {b.encode(input(part.begin), from[b.me], count, false)};
  }
  for (const int peer : b.peers()) {
    const int32_t sent = b.send(peer, 0, from[b.me], count, before_send);
    if (!p.coded) before_sum.push_back(sent);  // the output may be the input
  }
  for (const int peer : b.peers()) {
    from[peer] = p.coded ? b.slot(count) : b.scratch(count);
    before_sum.push_back(b.receive(peer, 0, from[peer], count));
  }
  sum_ranks(b, from, output(part.begin), count, before_sum);
  return b.take();
}

Cost all_reduce_gather_sum_cost(const Problem& p) {
  Cost cost = flat_cost(p, 1, static_cast<double>(p.count));
  cost.summed_elements = static_cast<double>(p.count) * p.ranks();
  return cost;
}

}  // namespace stretto::comm
