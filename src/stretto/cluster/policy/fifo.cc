// Jobs start in the order of their submission. A job that does not fit blocks those behind it.
#include "stretto/cluster/policy/parts.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {

int64_t by_submission(const Job& job) { return job.submit_ms; }

void use_fifo(Policy& policy) {
  policy.key = by_submission;
  policy.blocking = Blocking::kStrict;
}

}  // namespace stretto::cluster
