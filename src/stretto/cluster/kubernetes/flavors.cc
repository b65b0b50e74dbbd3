#include "stretto/cluster/kubernetes/flavors.h"

#include <fmt/format.h>

#include <unordered_map>

#include "stretto/base/error.h"
#include "stretto/cluster/kubernetes/kubernetes.h"
#include "stretto/cluster/kubernetes/objects.h"

namespace stretto::cluster {

std::vector<Flavor> flavors_of(const Site& site) {
  std::unordered_map<std::string, const NodeSet*> sets;
  for (const NodeSet& set : site.nodes) {
    for (const std::string& name : set.names) sets[name] = &set;
  }
  std::vector<Flavor> all;
  std::map<std::string, std::string> taken;
  const auto add = [&](const std::string& group, const std::vector<std::string>& nodes, int line) {
    std::map<std::string, Flavor> by_chip;
    for (const std::string& node : nodes) {
      const NodeSet& set = *sets.at(node);
      Flavor& flavor = by_chip[set.chip];
      flavor.nodes.push_back(node);
      flavor.racks = flavor.racks && !set.rack.empty();
      flavor.capacity["cpu"] += set.cores;
      flavor.capacity["memory"] += set.memory_mb;
      if (set.chips > 0) flavor.capacity[site.chips.at(set.chip).resource] += set.chips;
    }
    for (auto& [chip, flavor] : by_chip) {
      flavor.group = group;
      flavor.chip = chip;
      flavor.line = line;
      flavor.name = fmt::format("{}-{}", kubernetes_name(group.empty() ? kReserveName : group),
                                kubernetes_name(chip.empty() ? "cpu" : chip));
      const std::string what = fmt::format("{} of {}", chip, group);
      const auto [at, is_new] = taken.emplace(flavor.name, what);
      if (!is_new) {
        throw_unsupported("{}:{}: {} and {} would both be called {} in Kubernetes: rename one",
                          site.file, line, at->second, what, flavor.name);
      }
      all.push_back(std::move(flavor));
    }
  };
  for (const Group& group : site.groups) add(group.name, group.nodes, group.line);
  if (site.reserve.line > 0) add("", site.reserve.nodes, site.reserve.line);
  return all;
}

std::vector<NodeLabels> node_labels_of(const Site& site) {
  std::unordered_map<std::string, std::string> racks;
  for (const NodeSet& set : site.nodes) {
    if (set.rack.empty()) continue;
    for (const std::string& node : set.names) racks[node] = kubernetes_name(set.rack);
  }
  std::vector<NodeLabels> all;
  for (const Flavor& flavor : flavors_of(site)) {
    for (const std::string& node : flavor.nodes) {
      NodeLabels each{.name = node, .flavor = flavor.name, .line = flavor.line};
      each.labels.emplace_back("stretto/group",
                               flavor.group.empty() ? kReserveName : kubernetes_name(flavor.group));
      each.labels.emplace_back("stretto/chip", flavor.chip.empty() ? "none" : flavor.chip);
      const auto rack = racks.find(node);
      if (rack != racks.end()) each.labels.emplace_back("stretto/rack", rack->second);
      all.push_back(std::move(each));
    }
  }
  return all;
}

}  // namespace stretto::cluster
