// Shortest job first, by the times that the scheduler was told. Backfilling keeps large jobs from
// waiting for ever, as the first one that does not fit has a plan.
#include "stretto/cluster/policy/parts.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {

int64_t by_prediction(const Job& job) { return job.predicted_ms; }

void use_shortest(Policy& policy) {
  policy.key = by_prediction;
  policy.blocking = Blocking::kBackfill;
}

}  // namespace stretto::cluster
