// How the groups of the site are used. Hard groups are the rule of a published site: single-chip
// jobs may run in the single-chip group only. Soft ones keep its preference and drop its walls.
#include "stretto/cluster/policy/parts.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {

void use_no_groups(Policy& policy) { policy.grouping = Grouping::kNone; }
void use_hard_groups(Policy& policy) { policy.grouping = Grouping::kHard; }
void use_soft_groups(Policy& policy) { policy.grouping = Grouping::kSoft; }

}  // namespace stretto::cluster
