// Fragmentation gradient descent (Weng and others, ATC 2023): the node on which the job adds least
// to the chips that are of no use for the jobs of the trace. Ties: lowest node.
#include "stretto/cluster/policy/fragmentation.h"
#include "stretto/cluster/policy/parts.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {

Spot place_fgd(PlaceContext& context, const Need& need, std::span<const int> classes) {
  Spot best;
  double least = 0;
  for_each_fit(context, need, classes, [&](int node) {
    const Fragmentation::Growth growth =
        context.fragmentation->growth(context.nodes, node, need, context.shape);
    if (best.node >= 0 && (growth.amount > least || (growth.amount == least && node > best.node))) {
      return;
    }
    best = {.node = node, .chip = growth.chip};
    least = growth.amount;
  });
  return best;
}

void use_fgd(Policy& policy) {
  policy.place = place_fgd;
  policy.needs_fragmentation = true;
}

}  // namespace stretto::cluster
