// A site file compared with what a Kubernetes cluster has. Nothing here runs or changes anything.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stretto/cluster/difference.h"
#include "stretto/cluster/site.h"

namespace stretto::cluster {

// What `kubectl get -A -o json` has to be asked for, with commas between.
std::string kubernetes_kinds();

// `json` is the list that kubectl printed. Differences of the objects that compile writes, in that
// order, then of nodes: their labels, and how many chips they offer. Last what only the cluster
// has: ClusterQueues in the site's cohort and LocalQueues that lead to its ClusterQueues. Fields
// that Kubernetes and Kueue fill in by default are no differences. Throws FormatError for what
// kubectl did not print.
std::vector<Difference> kubernetes_differences(const Site& site, std::string_view json);

}  // namespace stretto::cluster
