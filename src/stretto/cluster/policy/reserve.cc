// How the reserve of the site is used.
#include "stretto/cluster/policy/parts.h"
#include "stretto/cluster/policy/policy.h"

namespace stretto::cluster {

void use_no_reserve(Policy& policy) { policy.reserve = ReserveUse::kNone; }
void use_held_reserve(Policy& policy) { policy.reserve = ReserveUse::kHeld; }
void use_lent_reserve(Policy& policy) { policy.reserve = ReserveUse::kLent; }

}  // namespace stretto::cluster
