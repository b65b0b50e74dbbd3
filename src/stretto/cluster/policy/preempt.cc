// Whether running jobs make room: for queues that preempt, and for the owners of groups and of the
// reserve. simulate/preempt.cc chooses whom.
#include "stretto/cluster/policy/parts.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {

void use_preempt(Policy& policy) { policy.preempting = Preempting::kOn; }
void use_no_preempt(Policy& policy) { policy.preempting = Preempting::kOff; }

}  // namespace stretto::cluster
