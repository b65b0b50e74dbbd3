// What is written for Kubernetes, as data: for the files, and to compare with what a cluster has.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "stretto/cluster/site.h"

namespace stretto::cluster {

struct KubernetesObject {
  int line = 0;  // of the site file
  nlohmann::ordered_json object;
};

// The objects of site.yaml and size-rule.yaml. Throws as write_kubernetes() does.
std::vector<KubernetesObject> kubernetes_objects(const Site& site);
// Those of size-rule.yaml: the policy and its binding.
std::vector<nlohmann::ordered_json> size_rule_objects(const Site& site);

// What label-nodes.sh says of a node.
struct NodeLabels {
  std::string name, flavor;
  int line = 0;  // of its group or the reserve
  std::vector<std::pair<std::string, std::string>> labels;
};
std::vector<NodeLabels> node_labels_of(const Site& site);

}  // namespace stretto::cluster
