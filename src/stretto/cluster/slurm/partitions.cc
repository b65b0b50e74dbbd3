#include "stretto/cluster/slurm/partitions.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "stretto/base/error.h"
#include "stretto/cluster/names.h"

namespace stretto::cluster {
namespace {

constexpr int kSpareTier = 1, kHomeTier = 10;

bool is_among(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// Queues that do not preempt share a tier; those that do have one for each priority.
std::map<std::string, int> tiers_of(const Site& site) {
  std::map<std::string, int> tiers;
  const Queue* calm = nullptr;  // the one with the highest priority that does not preempt
  for (const Queue& queue : site.queues) {
    if (!queue.preempts && !calm) calm = &queue;
    if (queue.preempts && calm && calm->priority > queue.priority) {
      throw_unsupported(
          "{}:{}: Slurm cannot let queue {} preempt while {}, which has a higher priority, does "
          "not: let both or none preempt, or swap their priorities",
          site.file, queue.line, queue.name, calm->name);
    }
  }
  std::set<int> priorities;
  for (const Queue& queue : site.queues) {
    if (queue.preempts) priorities.insert(queue.priority);
  }
  for (const Queue& queue : site.queues) {
    tiers[queue.name] =
        !queue.preempts
            ? kHomeTier
            : kHomeTier + 10 * (1 + static_cast<int>(std::distance(
                                        priorities.begin(), priorities.find(queue.priority))));
  }
  return tiers;
}

const Group& group_named(const Site& site, const std::string& name) {
  return *std::find_if(site.groups.begin(), site.groups.end(),
                       [&](const Group& group) { return group.name == name; });
}

int64_t lower_limit(int64_t a, int64_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

}  // namespace

std::vector<Partition> partitions_of(const Site& site) {
  const std::map<std::string, int> tiers = tiers_of(site);
  std::vector<Partition> all;
  for (const Queue& queue : site.queues) {
    const bool owner = is_among(site.reserve.queues, queue.name);
    // Queues are sorted by falling priority, so only those before this one can preempt it.
    const bool preempted = std::any_of(
        site.queues.begin(), site.queues.end(),
        [&](const Queue& other) { return other.preempts && other.priority > queue.priority; });
    bool first = true;
    for (const Group& group : site.groups) {
      if (!queue.groups.empty() && !is_among(queue.groups, group.name)) continue;
      Partition home{.name = queue.name + "." + group.name,
                     .queue = queue.name,
                     .group = group.name,
                     .is_default = queue.is_default && first,
                     .nodes = group.nodes,
                     .tier = tiers.at(queue.name),
                     .factor = queue.priority,
                     .preemptible = preempted,
                     .longest_s = lower_limit(queue.longest_s, site.limits.longest_s),
                     .most_nodes = lower_limit(site.limits.most_nodes, group.most_chips),
                     .line = queue.line};
      home.default_s = lower_limit(site.limits.default_s, home.longest_s);
      first = false;
      if (owner) {
        home.nodes.insert(home.nodes.end(), site.reserve.nodes.begin(), site.reserve.nodes.end());
      }
      Partition spare = home;
      all.push_back(std::move(home));
      spare.name += ".spare";
      spare.spare = true;
      spare.is_default = false;
      spare.tier = kSpareTier;
      spare.preemptible = site.preemption.mode != Preemption::kOff;
      spare.line = group.line;
      spare.nodes.clear();
      for (const std::string& name : group.spill) {
        const Group& other = group_named(site, name);
        spare.nodes.insert(spare.nodes.end(), other.nodes.begin(), other.nodes.end());
      }
      if (site.reserve.line > 0 && site.reserve.lend && !owner) {
        spare.nodes.insert(spare.nodes.end(), site.reserve.nodes.begin(), site.reserve.nodes.end());
        if (group.spill.empty()) spare.line = site.reserve.line;
      }
      if (!spare.nodes.empty()) all.push_back(std::move(spare));
    }
  }
  return all;
}

std::vector<NodeLine> node_lines_of(const Site& site) {
  std::unordered_map<std::string, std::pair<std::string, int>> owners;  // group and weight
  for (const std::string& node : site.reserve.nodes) owners[node] = {"", 1};
  std::vector<const Group*> by_size;
  for (const Group& group : site.groups) by_size.push_back(&group);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const Group* a, const Group* b) { return a->least_chips < b->least_chips; });
  for (size_t i = 0; i < by_size.size(); ++i) {
    for (const std::string& node : by_size[i]->nodes) {
      owners[node] = {by_size[i]->name, static_cast<int>(10 * (i + 1))};
    }
  }
  std::set<int> sizes;
  for (const NodeSet& set : site.nodes) sizes.insert(set.chips);

  std::vector<NodeLine> lines;
  for (const NodeSet& set : site.nodes) {
    const std::vector<std::string> addresses =
        set.address.empty() ? std::vector<std::string>() : expand_names(set.address);
    std::vector<size_t> order(set.names.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return names_before(set.names[a], set.names[b]); });
    std::map<std::pair<int, std::string>, NodeLine> parts;
    // Among nodes of a group, small ones first: large ones stay whole for jobs that need them.
    const int rank =
        std::min(static_cast<int>(std::distance(sizes.begin(), sizes.find(set.chips))), 9);
    for (const size_t i : order) {
      const auto& [group, weight] = owners.at(set.names[i]);
      NodeLine& line = parts[{weight, group}];
      line.set = &set;
      line.group = group;
      line.weight = group.empty() ? weight : weight + rank;
      line.names.push_back(set.names[i]);
      if (!addresses.empty()) line.addresses.push_back(addresses[i]);
    }
    for (auto& [key, line] : parts) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace stretto::cluster
