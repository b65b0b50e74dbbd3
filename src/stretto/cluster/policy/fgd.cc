// Fragmentation gradient descent (Weng and others, ATC 2023): the node on which the job adds least
// to the chips that are of no use for the jobs of the trace. As published, growths are compared in
// a hundred steps, so that small differences do not decide. Ties: the first name, which keeps the
// last nodes whole; with one that is drawn, the published site fills up to 90 % instead of 95 %.
#include "stretto/cluster/policy/fragmentation.h"
#include "stretto/cluster/policy/parts.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {

Spot place_fgd(PlaceContext& context, const Need& need, std::span<const int> classes) {
  Spot best;
  int highest = -1, first = 0;
  for_each_fit(context, need, classes, [&](int node) {
    const Fragmentation::Growth growth =
        context.fragmentation->growth(context.nodes, node, need, context.shape);
    const int score = fgd_score(growth.amount);
    const int rank = context.nodes.rank(node);
    if (score < highest || (score == highest && rank > first)) return;
    highest = score;
    first = rank;
    best = {.node = node, .chip = growth.chip};
  });
  return best;
}

void use_fgd(Policy& policy) {
  policy.place = place_fgd;
  policy.needs_fragmentation = true;
}

}  // namespace stretto::cluster
