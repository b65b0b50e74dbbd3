#include "stretto/cluster/simulate/shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "stretto/base/error.h"

namespace stretto::cluster {
namespace {

constexpr size_t kMostRegions = 63;

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

// Groups, by their index, in the order in which a job of this queue and size prefers them. Those of
// one stage are as good as each other.
std::vector<std::vector<int>> group_stages(const Site& site, const Policy& policy, int chips,
                                           const Queue& queue, int& own) {
  std::vector<int> usable;
  for (size_t g = 0; g < site.groups.size(); ++g) {
    if (queue.groups.empty() || holds(queue.groups, site.groups[g].name)) {
      usable.push_back(static_cast<int>(g));
    }
  }
  own = -1;
  if (policy.grouping == Grouping::kNone) return std::vector<std::vector<int>>(1, usable);
  for (const int g : usable) {
    const Group& group = site.groups[static_cast<size_t>(g)];
    if (chips >= group.least_chips && (group.most_chips == 0 || chips <= group.most_chips)) {
      own = g;
      break;
    }
  }
  // Jobs without chips have no size: any group will do.
  if (own < 0 && chips == 0) return std::vector<std::vector<int>>(1, usable);
  if (own < 0) return {};
  std::vector<std::vector<int>> stages{{own}};
  const Group& group = site.groups[static_cast<size_t>(own)];
  for (const int g : usable) {
    if (g == own || policy.grouping == Grouping::kHard) continue;
    if (policy.grouping == Grouping::kSoft ||
        holds(group.spill, site.groups[static_cast<size_t>(g)].name)) {
      stages.push_back({g});
    }
  }
  return stages;
}

// Adds the reserve where the queue may use it, and says whether the queue owns it.
void add_reserve(const Site& site, const SiteMap& map, const Policy& policy, const Queue& queue,
                 std::vector<std::vector<int>>& stages, bool& owner) {
  owner = false;
  if (map.reserve_region < 0) return;
  if (policy.reserve == ReserveUse::kNone) {
    if (policy.grouping == Grouping::kNone && !stages.empty()) {
      stages.front().push_back(map.reserve_region);
    } else {
      stages.push_back({map.reserve_region});
    }
    return;
  }
  owner = holds(site.reserve.queues, queue.name);
  const bool lent =
      policy.reserve == ReserveUse::kSite ? site.reserve.lend : policy.reserve == ReserveUse::kLent;
  if (owner) {
    stages.insert(stages.begin(), {map.reserve_region});
  } else if (lent) {
    stages.push_back({map.reserve_region});
  }
}

bool kind_will_do(const SiteMap& map, const Job& job, const NodeClass& nodes) {
  if (job.kinds == 0) return true;
  return nodes.kind >= 0 &&
         ((map.kind_masks[static_cast<size_t>(job.kinds)] >> nodes.kind) & 1) != 0;
}

// Why the limits of the site never let the job start; empty: they do. Slurm refuses such jobs, too.
std::string reason_of_limits(const Site& site, const SiteMap& map, const Job& job,
                             const Queue& queue) {
  const auto too_many = [&](int most, std::string_view whose) {
    return most > 0 && job.chips > most
               ? fmt::format("{} chips are more than the {} of {}", job.chips, most, whose)
               : std::string();
  };
  if (std::string why = too_many(site.limits.most_chips, "[limits]"); !why.empty()) return why;
  if (std::string why = too_many(queue.most_chips, fmt::format("queue '{}'", queue.name));
      !why.empty()) {
    return why;
  }
  if (map.counts_users) {
    std::string why = too_many(map.most_of_users[static_cast<size_t>(job.user)], "their user");
    if (!why.empty()) return why;
  }
  if (is_too_long(site, queue, job)) {
    return fmt::format("jobs that take longer than queue '{}' allows", queue.name);
  }
  return "";
}

// Pools of the classes in the stages, those with the largest nodes first.
std::vector<Pool> make_pools(const Site& site, const SiteMap& map, const Job& job, const Need& need,
                             const std::vector<std::vector<int>>& stages) {
  std::map<std::pair<int, int>, Pool> pools;  // by -chips and kind
  for (const std::vector<int>& regions : stages) {
    for (size_t c = 0; c < map.classes.size(); ++c) {
      const NodeClass& nodes = map.classes[c];
      if (nodes.chips == 0 || !kind_will_do(map, job, nodes)) continue;
      if (std::ranges::find(regions, nodes.region) == regions.end()) continue;
      const Parts parts = parts_of(need, nodes.chips);
      const int most_nodes = site.limits.most_nodes;
      if (most_nodes > 0 && parts.full + (parts.rest.chips > 0) > most_nodes) continue;
      if (!Nodes::fits_empty(nodes, parts.each) || !Nodes::fits_empty(nodes, parts.rest)) continue;
      Pool& pool = pools[{-nodes.chips, nodes.kind}];
      pool.chips = nodes.chips;
      pool.classes.push_back(static_cast<int>(c));
    }
  }
  std::vector<Pool> enough;
  for (auto& [key, pool] : pools) {
    int64_t count = 0;
    for (const int c : pool.classes) count += map.classes[static_cast<size_t>(c)].count;
    const Parts parts = parts_of(need, pool.chips);
    if (count >= parts.full + (parts.rest.chips > 0)) enough.push_back(std::move(pool));
  }
  return enough;
}

struct Named {
  size_t set = 0;  // of Site::nodes
  int rank = 0;    // among all names of the site
};

std::unordered_map<std::string, Named> nodes_by_name(const Site& site) {
  std::vector<std::pair<std::string, size_t>> names;
  for (size_t i = 0; i < site.nodes.size(); ++i) {
    for (const std::string& name : site.nodes[i].names) names.emplace_back(name, i);
  }
  std::ranges::sort(names);
  std::unordered_map<std::string, Named> by_name;
  for (const auto& [name, set] : names) {
    by_name.emplace(name, Named{set, static_cast<int>(by_name.size())});
  }
  return by_name;
}

void add_nodes(const Site& site, const std::vector<std::string>& names, int region,
               const std::unordered_map<std::string, Named>& by_name, SiteMap& map) {
  std::map<size_t, std::vector<int>> ranks;  // by index of Site::nodes
  for (const std::string& name : names) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) throw_invalid("{}: there is no node '{}'", site.file, name);
    ranks[found->second.set].push_back(found->second.rank);
  }
  for (auto& [set, of_set] : ranks) {
    std::ranges::sort(of_set);
    const NodeSet& nodes = site.nodes[set];
    NodeClass added{.region = region,
                    .chips = nodes.chips,
                    .cores_milli = nodes.cores * 1000,
                    .memory_mb = nodes.memory_mb,
                    .count = static_cast<int>(of_set.size()),
                    .ranks = std::move(of_set)};
    if (nodes.chips > kMostChips) {
      throw_invalid("{}: a node with {} chips: the simulator knows at most {}", site.file,
                    nodes.chips, kMostChips);
    }
    if (!nodes.chip.empty()) {
      const auto kind = std::ranges::find(map.kinds, nodes.chip);
      added.kind = static_cast<int>(kind - map.kinds.begin());
      if (kind == map.kinds.end()) map.kinds.push_back(nodes.chip);
    }
    map.classes.push_back(added);
  }
}

}  // namespace

Parts parts_of(const Need& need, int chips_of_node) {
  const auto share = [&](int chips) {
    return Need{.chips = chips,
                .milli = need.milli,
                .cores_milli = static_cast<int>(
                    (int64_t{need.cores_milli} * chips + need.chips - 1) / need.chips),
                .memory_mb = (need.memory_mb * chips + need.chips - 1) / need.chips};
  };
  Parts parts{.full = need.chips / chips_of_node, .each = share(chips_of_node), .rest = {}};
  if (need.chips % chips_of_node != 0) parts.rest = share(need.chips % chips_of_node);
  return parts;
}

SiteMap map_site(const Site& site, const Policy& policy, const Trace& trace) {
  if (site.groups.size() > kMostRegions) {
    throw_invalid("{}: {} groups: the simulator knows at most {}", site.file, site.groups.size(),
                  kMostRegions);
  }
  SiteMap map;
  const std::unordered_map<std::string, Named> by_name = nodes_by_name(site);
  for (size_t g = 0; g < site.groups.size(); ++g) {
    add_nodes(site, site.groups[g].nodes, static_cast<int>(g), by_name, map);
  }
  if (!site.reserve.nodes.empty()) {
    map.reserve_region = static_cast<int>(site.groups.size());
    add_nodes(site, site.reserve.nodes, map.reserve_region, by_name, map);
  }
  int64_t chips = 0;
  for (const NodeClass& nodes : map.classes) chips += int64_t{nodes.chips} * nodes.count;
  if (chips == 0) throw_invalid("{}: no group has a node with chips", site.file);
  if (map.kinds.size() > 64) throw_invalid("{}: more than 64 chip kinds", site.file);
  for (const std::vector<std::string>& set : trace.kind_sets) {
    uint64_t& mask = map.kind_masks.emplace_back(0);
    for (size_t i = 0; i < map.kinds.size(); ++i) {
      if (holds(set, map.kinds[i])) mask |= uint64_t{1} << i;
    }
  }
  map.preemption = policy.preempting == Preempting::kSite ? site.preemption.mode != Preemption::kOff
                                                          : policy.preempting == Preempting::kOn;
  map.cancels = site.preemption.mode == Preemption::kCancel;
  map.counts_users = !site.users.empty();
  for (const std::string& name : trace.users) {
    const auto user = std::ranges::find(site.users, name, &User::name);
    map.most_of_users.push_back(user == site.users.end() ? 0 : user->most_chips);
  }
  return map;
}

std::vector<int> map_queues(const Site& site, const Trace& trace) {
  int standard = 0;
  for (size_t i = 0; i < site.queues.size(); ++i) {
    if (site.queues[i].is_default) standard = static_cast<int>(i);
  }
  std::vector<int> queues;
  for (const std::string& name : trace.queues) {
    int found = standard;
    for (size_t i = 0; i < site.queues.size(); ++i) {
      if (!name.empty() && site.queues[i].name == name) found = static_cast<int>(i);
    }
    queues.push_back(found);
  }
  return queues;
}

bool is_too_long(const Site& site, const Queue& queue, const Job& job) {
  for (const int64_t longest_s : {queue.longest_s, site.limits.longest_s}) {
    if (longest_s > 0 && job.predicted_ms > (longest_s + 59) / 60 * 60'000) return true;
  }
  return false;
}

Shape make_shape(const Site& site, const SiteMap& map, const Policy& policy, const Job& job,
                 int queue_index, std::string& reason) {
  const Queue& queue = site.queues[static_cast<size_t>(queue_index)];
  Shape shape{.need = {.chips = job.chips,
                       .milli = job.chip_milli,
                       .cores_milli = job.cores_milli,
                       .memory_mb = job.memory_mb},
              .kinds = job.kinds,
              .queue = queue_index,
              .priority = queue.priority,
              .model = job.model,
              .user = map.counts_users ? job.user : 0};
  reason = reason_of_limits(site, map, job, queue);
  if (!reason.empty()) return shape;
  int own = -1;
  bool owns_reserve = false;
  std::vector<std::vector<int>> stages = group_stages(site, policy, job.chips, queue, own);
  if (stages.empty()) {
    reason = fmt::format("no group of queue '{}' takes jobs of {} chips", queue.name, job.chips);
    return shape;
  }
  add_reserve(site, map, policy, queue, stages, owns_reserve);
  for (const std::vector<int>& regions : stages) {
    std::vector<int> classes;
    for (size_t c = 0; c < map.classes.size(); ++c) {
      const NodeClass& nodes = map.classes[c];
      if (std::ranges::find(regions, nodes.region) == regions.end()) continue;
      if (!kind_will_do(map, job, nodes) || !Nodes::fits_empty(nodes, shape.need)) continue;
      classes.push_back(static_cast<int>(c));
      shape.regions |= uint64_t{1} << nodes.region;
    }
    if (!classes.empty()) shape.stages.push_back(std::move(classes));
  }
  if (shape.stages.empty() && job.chips > 1) {
    shape.pools = make_pools(site, map, job, shape.need, stages);
    for (const Pool& pool : shape.pools) {
      for (const int c : pool.classes) {
        shape.regions |= uint64_t{1} << map.classes[static_cast<size_t>(c)].region;
      }
    }
  }
  if (!shape.possible()) {
    reason = fmt::format("no nodes for {} chips, {} cores and {} MB in queue '{}'", job.chips,
                         job.cores_milli / 1000.0, job.memory_mb, queue.name);
    return shape;
  }
  if (map.preemption) {
    shape.preempts = queue.preempts;
    if (own >= 0) shape.owns |= uint64_t{1} << own;
    if (owns_reserve) shape.owns |= uint64_t{1} << map.reserve_region;
  }
  return shape;
}

}  // namespace stretto::cluster
