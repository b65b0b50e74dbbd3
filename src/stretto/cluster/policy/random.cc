// Any node on which the job fits, and any chip of it that has room: what others are compared with.
#include "stretto/cluster/policy/parts.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {

Spot place_random(PlaceContext& context, const Need& need, std::span<const int> classes) {
  uint64_t count = 0;
  for_each_fit(context, need, classes, [&](int) { ++count; });
  if (count == 0) return {};
  uint64_t chosen = context.random.below(count);
  Spot spot;
  for_each_fit(context, need, classes, [&](int node) {
    if (chosen-- == 0) spot.node = node;
  });
  if (need.whole()) return spot;
  std::vector<int> roomy;
  const std::span<const int16_t> chips = context.nodes.chips(spot.node);
  for (size_t i = 0; i < chips.size(); ++i) {
    if (chips[i] >= need.milli) roomy.push_back(static_cast<int>(i));
  }
  spot.chip = roomy[context.random.below(roomy.size())];
  return spot;
}

void use_random(Policy& policy) { policy.place = place_random; }

}  // namespace stretto::cluster
