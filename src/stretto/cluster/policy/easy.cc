// EASY backfilling (Lifka 1995): the first job that does not fit gets a plan, the earliest time at
// which it will; jobs behind it start now if they end before that time or use what it leaves.
#include "stretto/cluster/policy/parts.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {

void use_easy(Policy& policy) {
  policy.key = by_submission;
  policy.blocking = Blocking::kBackfill;
}

}  // namespace stretto::cluster
