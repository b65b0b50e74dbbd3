// The least loaded node, as schedulers that balance do. Ties: lowest node.
#include "stretto/cluster/policy/parts.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {

Spot place_spread(PlaceContext& context, const Need& need, std::span<const int> classes) {
  Spot best;
  int64_t most = -1;
  for_each_fit(context, need, classes, [&](int node) {
    const int64_t free = context.nodes.free_milli(node);
    if (free < most || (free == most && node > best.node)) return;
    best.node = node;
    most = free;
  });
  return best;
}

void use_spread(Policy& policy) { policy.place = place_spread; }

}  // namespace stretto::cluster
