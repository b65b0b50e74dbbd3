// After Gavel (OSDI 2020), of which only the idea of a matrix is taken: the chip kind on which this
// model makes most steps per second, then best fit. Kinds with unknown rates come last.
#include "stretto/cluster/policy/parts.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {

Spot place_throughput(PlaceContext& context, const Need& need, std::span<const int> classes) {
  Spot best;
  double fastest = -1;
  std::vector<int> of_kind;
  for (size_t i = 0; i < classes.size(); ++i) {
    const int kind = context.nodes.classes()[static_cast<size_t>(classes[i])].kind;
    const double rate = context.rate(kind, context.model, context.model_chips);
    if (rate <= fastest) continue;
    of_kind.clear();
    for (const int c : classes) {
      if (context.nodes.classes()[static_cast<size_t>(c)].kind == kind) of_kind.push_back(c);
    }
    const Spot spot = place_best_fit(context, need, of_kind);
    if (spot.node < 0) continue;
    best = spot;
    fastest = rate;
  }
  return best;
}

void use_throughput(Policy& policy) { policy.place = place_throughput; }

}  // namespace stretto::cluster
