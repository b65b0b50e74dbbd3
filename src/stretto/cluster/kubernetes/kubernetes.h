// Writes what Kueue, on Kubernetes, has to know of a site.
#pragma once

#include <string>
#include <string_view>

#include "stretto/cluster/output.h"
#include "stretto/cluster/site.h"

namespace stretto::cluster {

// kubernetes/site.yaml (namespaces, flavors, queues and priorities), size-rule.yaml and
// label-nodes.sh. Throws Unsupported for policies that Kueue cannot express, and for names that
// Kubernetes does not take.
Files write_kubernetes(const Site& site);

// In lower case, with - instead of _. Throws Unsupported if that ends with a dash.
std::string kubernetes_name(std::string_view name);

}  // namespace stretto::cluster
