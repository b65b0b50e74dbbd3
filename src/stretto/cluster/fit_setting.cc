#include "stretto/cluster/fit_setting.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "stretto/base/error.h"

namespace stretto::cluster {
namespace {

// Lets the jobs of each group into the others that have nodes: at a site that preempts, into those
// of larger jobs only.
void spill_softly(Site& site) {
  for (Group& group : site.groups) {
    group.spill.clear();
    for (const Group& other : site.groups) {
      if (&other == &group || other.nodes.empty() || group.chipless || other.chipless) continue;
      if (preempts(site) && other.least_chips < group.least_chips) continue;
      group.spill.push_back(other.name);
    }
  }
}

}  // namespace

Site with_groups(const Site& site) {
  Site split = site;
  if (split.groups.size() != 1) return split;
  Group single = split.groups.front();
  Group multi = single;
  single.name = "single";
  single.least_chips = 0;
  single.most_chips = 1;
  single.spill = {};
  multi.name = "multi";
  multi.least_chips = 2;
  multi.spill = {};
  single.nodes.clear();
  split.groups = {single, multi};
  for (Queue& queue : split.queues) queue.groups.clear();
  return split;
}

bool preempts(const Site& site) { return site.preemption.mode != Preemption::kOff; }

int distance(const FitSetting& a, const FitSetting& b) {
  int moved = std::abs(a.reserve_nodes - b.reserve_nodes);
  for (size_t g = 0; g < a.group_nodes.size(); ++g) {
    moved += std::abs(a.group_nodes[g] - b.group_nodes[g]);
  }
  return moved / 2;
}

FitSetting setting_of(const Site& site) {
  FitSetting setting;
  for (const Group& group : site.groups) {
    setting.group_nodes.push_back(static_cast<int>(group.nodes.size()));
  }
  setting.reserve_nodes = static_cast<int>(site.reserve.nodes.size());
  return setting;
}

Site resized(const Site& site, const FitSetting& setting) {
  Site other = with_groups(site);
  std::vector<std::string> nodes;
  for (Group& group : other.groups) {
    nodes.insert(nodes.end(), group.nodes.begin(), group.nodes.end());
    group.nodes.clear();
  }
  nodes.insert(nodes.end(), other.reserve.nodes.begin(), other.reserve.nodes.end());
  int wanted = setting.reserve_nodes;
  for (const int count : setting.group_nodes) wanted += count;
  if (setting.group_nodes.size() != other.groups.size() ||
      wanted != static_cast<int>(nodes.size())) {
    throw_invalid("fit: the sizes say {} groups and {} nodes, the site has {} and {}",
                  setting.group_nodes.size(), wanted, other.groups.size(), nodes.size());
  }
  auto at = nodes.begin();
  for (size_t g = 0; g < other.groups.size(); ++g) {
    other.groups[g].nodes.assign(at, at + setting.group_nodes[g]);
    at += setting.group_nodes[g];
  }
  other.reserve.nodes.assign(at, nodes.end());
  if (setting.soft) spill_softly(other);
  if (setting.reserve_nodes > 0 && other.reserve.queues.empty()) {
    for (const Queue& queue : other.queues) {
      if (queue.preempts) other.reserve.queues.push_back(queue.name);
    }
  }
  return other;
}

}  // namespace stretto::cluster
