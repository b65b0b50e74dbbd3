// What Kubernetes does without Kueue: whatever fits starts. Large jobs may wait for ever.
#include "stretto/cluster/policy/parts.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {

void use_greedy(Policy& policy) {
  policy.key = by_submission;
  policy.blocking = Blocking::kGreedy;
}

}  // namespace stretto::cluster
