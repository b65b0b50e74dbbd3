// Best fit: the node on which least is left. Where only chips are asked for, that is the fewest
// free chips; else half chips and half cores, as in the experiments of FGD (ATC 2023). Ties: lowest
// node.
#include "stretto/cluster/policy/parts.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {
namespace {

Spot fewest_free_chips(const PlaceContext& context, const Need& need,
                       std::span<const int> classes) {
  for (int free = need.chips; free <= context.nodes.most_chips(); ++free) {
    int best = -1;
    for (const int c : classes) {
      if (free > context.nodes.classes()[static_cast<size_t>(c)].chips) continue;
      int node = context.nodes.first_with(c, free);
      while (node >= 0 && !context.allows(node, need)) {
        node = context.nodes.first_with(c, free, node + 1);
      }
      if (node >= 0 && (best < 0 || node < best)) best = node;
    }
    if (best >= 0) return {.node = best};
  }
  return {};
}

}  // namespace

Spot place_best_fit(PlaceContext& context, const Need& need, std::span<const int> classes) {
  if (context.only_chips) return fewest_free_chips(context, need, classes);
  const double most_cores = std::max(1, context.nodes.most_cores_milli());
  const double most_chips = std::max(1, context.nodes.most_chips()) * 1000.0;
  Spot best;
  double least = 0;
  for_each_fit(context, need, classes, [&](int node) {
    const double cores = context.nodes.cores_milli(node) - need.cores_milli;
    const auto chips = static_cast<double>(context.nodes.free_milli(node) - need.chip_milli());
    const double left = cores / most_cores + chips / most_chips;
    if (best.node >= 0 && (left > least || (left == least && node > best.node))) return;
    best.node = node;
    least = left;
  });
  return best;
}

void use_best_fit(Policy& policy) { policy.place = place_best_fit; }

}  // namespace stretto::cluster
