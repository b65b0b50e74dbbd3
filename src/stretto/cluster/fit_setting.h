// What a fit needs to know of sites.
#pragma once

#include "stretto/cluster/fit.h"

namespace stretto::cluster {

// A site with one group gets two, so that there is something to search; "single" has no nodes yet.
Site with_groups(const Site& site);

bool preempts(const Site& site);

// How many nodes would have to move.
int distance(const FitSetting& a, const FitSetting& b);

}  // namespace stretto::cluster
