#include "stretto/cluster/site.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/base/spelling.h"
#include "stretto/cluster/site_toml.h"

namespace stretto::cluster {
namespace {

constexpr size_t kMostNodes = 1'000'000;

// Fills in what the file leaves open, one function per kind of table, and finds contradictions.
class Checker {
 public:
  explicit Checker(SiteText text) : text_(std::move(text)), site_(text_.site) {}

  Site check() {
    chips();
    nodes();
    groups();
    reserve();
    every_node_is_used();
    sizes();
    spill();
    queues();
    users();
    limits();
    return std::move(site_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(int line, fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(site_.file, line, fmt::format(format, std::forward<Args>(args)...));
  }

  // expand_names(), whose errors get the line of the entry.
  std::vector<std::string> expand(const std::string& list, int line, std::string_view what) const {
    std::vector<std::string> names;
    try {
      names = expand_names(list);
    } catch (const InvalidArgument& e) {
      fail(line, "{}: {}", what, e.what());
    }
    std::set<std::string_view> seen;
    for (const std::string& name : names) {
      if (!seen.insert(name).second) fail(line, "{}: {} is named twice", what, name);
    }
    return names;
  }

  static std::string guess(const std::string& word, const std::vector<std::string>& known) {
    const std::string meant = nearest_word(word, known);
    if (!meant.empty()) return fmt::format(", did you mean {}?", meant);
    if (known.size() > 12) return "";
    return fmt::format("; there are: {}", fmt::join(known, ", "));
  }

  template <typename T>
  static std::vector<std::string> names_of(const std::vector<T>& entries) {
    std::vector<std::string> names;
    for (const T& entry : entries) names.push_back(entry.name);
    return names;
  }

  template <typename T>
  void different_names(const std::vector<T>& entries, std::string_view table) const {
    std::unordered_map<std::string, int> seen;
    for (const T& entry : entries) {
      const auto [at, is_new] = seen.emplace(entry.name, entry.line);
      if (is_new) continue;
      fail(entry.line, "[[{}]] {}: line {} has this name already", table, entry.name, at->second);
    }
  }

  template <typename T>
  void must_exist(const std::vector<std::string>& names, const std::vector<T>& entries, int line,
                  std::string_view where, std::string_view kind) const {
    const std::vector<std::string> known = names_of(entries);
    for (const std::string& name : names) {
      if (std::count(known.begin(), known.end(), name)) continue;
      fail(line, "{}: there is no {} {}{}", where, kind, name, guess(name, known));
    }
  }

  void chips() {
    std::set<std::string> used;
    for (const NodeSet& set : site_.nodes) {
      if (set.chip.empty() && set.chips > 0) {
        fail(set.line, "[[nodes]]: {} chips per node, but not which: add chip = \"KIND\"",
             set.chips);
      }
      if (!set.chip.empty() && set.chips == 0) {
        fail(set.line, "[[nodes]]: chip {}, but not how many per node: add chips = N", set.chip);
      }
      if (set.chip.empty()) continue;
      used.insert(set.chip);
      auto& kind = site_.chips[set.chip];
      if (kind.name.empty())
        kind = {.name = set.chip, .resource = "nvidia.com/gpu", .line = set.line};
    }
    for (auto& [name, kind] : site_.chips) {
      if (!used.count(name)) {
        fail(kind.line, "[chips.{}]: no nodes have such chips{}", name,
             guess(name, {used.begin(), used.end()}));
      }
      if (kind.gres.empty()) kind.gres = "gpu:" + name;
      devices(kind);
    }
  }

  void devices(ChipKind& kind) const {
    const bool gpu = kind.gres == "gpu" || kind.gres.starts_with("gpu:");
    int most = 0;
    for (const NodeSet& set : site_.nodes) {
      if (set.chip == kind.name) most = std::max(most, set.chips);
    }
    if (!text_.devices_said.count(kind.name)) {
      if (gpu)
        kind.devices = most == 1 ? "/dev/nvidia0" : fmt::format("/dev/nvidia[0-{}]", most - 1);
      return;
    }
    if (kind.devices.empty()) {
      if (!gpu) return;
      fail(kind.line,
           "[chips.{}]: Slurm needs devices for what is called gpu: name them, or use another gres",
           kind.name);
    }
    const size_t count = expand(kind.devices, kind.line, "devices").size();
    if (count < static_cast<size_t>(most)) {
      fail(kind.line, "[chips.{}]: {} device files for nodes of {} chips", kind.name, count, most);
    }
  }

  void nodes() {
    if (site_.nodes.empty()) {
      fail(1, "a site needs nodes: add [[nodes]] with names, cores and the like");
    }
    size_t count = 0;
    for (size_t i = 0; i < site_.nodes.size(); ++i) {
      NodeSet& set = site_.nodes[i];
      set.names = expand(text_.node_names[i], set.line, "[[nodes]] names");
      if (set.build.empty()) set.build = set.chip.empty() ? "cpu" : set.chip;
      if ((count += set.names.size()) > kMostNodes) {
        fail(set.line, "[[nodes]]: more than 1,000,000 nodes");
      }
      if (!set.address.empty()) {
        const size_t addresses = expand(set.address, set.line, "[[nodes]] address").size();
        if (addresses != set.names.size()) {
          fail(set.line, "[[nodes]]: {} addresses for {} names", addresses, set.names.size());
        }
      }
      for (const std::string& name : set.names) {
        const auto [at, is_new] = place_.emplace(name, i);
        if (is_new) continue;
        fail(set.line, "[[nodes]]: node {} is in line {} already", name,
             site_.nodes[at->second].line);
      }
    }
  }

  void node_exists(const std::string& name, int line, std::string_view where) const {
    if (place_.count(name)) return;
    std::vector<std::string> known;
    for (const NodeSet& set : site_.nodes) {
      for (const std::string& each : set.names) {
        if (known.size() < 1000) known.push_back(each);
      }
    }
    fail(line, "{}: [[nodes]] has no {}{}", where, name, guess(name, known));
  }

  void groups() {
    different_names(site_.groups, "groups");
    for (size_t i = 0; i < site_.groups.size(); ++i) {
      Group& group = site_.groups[i];
      group.nodes = expand(text_.group_nodes[i], group.line, "[[groups]] nodes");
      const std::string where = fmt::format("[[groups]] {}", group.name);
      for (const std::string& node : group.nodes) {
        node_exists(node, group.line, where);
        const auto [at, is_new] = owner_.emplace(node, where);
        if (!is_new) fail(group.line, "{}: {} has node {} already", where, at->second, node);
      }
    }
  }

  void reserve() {
    Reserve& reserve = site_.reserve;
    if (reserve.line == 0) return;
    reserve.nodes = expand(text_.reserve_nodes, reserve.line, "[reserve] nodes");
    for (const std::string& node : reserve.nodes) {
      node_exists(node, reserve.line, "[reserve]");
      const auto [at, is_new] = owner_.emplace(node, "[reserve]");
      if (!is_new) {
        fail(reserve.line, "[reserve]: node {} is in {} too: it can be in one of them", node,
             at->second);
      }
    }
    if (reserve.nodes.size() == place_.size()) {
      fail(reserve.line, "[reserve]: all nodes are reserved, none is left for other jobs");
    }
    if (site_.preemption.mode == Preemption::kOff) {
      if (text_.lend_said && reserve.lend) {
        fail(
            reserve.line,
            "[reserve]: lend needs preemption, or the reserve would not be free when it is needed");
      }
      reserve.lend = false;
    }
  }

  void every_node_is_used() {
    if (site_.groups.empty()) {
      Group all{.name = "all", .line = site_.nodes.front().line};
      for (const NodeSet& set : site_.nodes) {
        for (const std::string& name : set.names) {
          if (!owner_.count(name)) all.nodes.push_back(name);
        }
      }
      site_.groups.push_back(std::move(all));
      return;
    }
    for (const NodeSet& set : site_.nodes) {
      for (const std::string& name : set.names) {
        if (owner_.count(name)) continue;
        fail(set.line, "[[nodes]]: node {} is in no group and not in the reserve: add it to one",
             name);
      }
    }
  }

  int64_t chips_of(const std::vector<std::string>& nodes) const {
    int64_t chips = 0;
    for (const std::string& node : nodes) chips += site_.nodes[place_.at(node)].chips;
    return chips;
  }

  void sizes() {
    std::vector<const Group*> by_size;
    for (const Group& group : site_.groups) {
      by_size.push_back(&group);
      const int64_t chips = chips_of(group.nodes);
      if (group.least_chips > chips) {
        fail(group.line, "[[groups]] {}: its jobs have {} chips or more, its nodes {}: no job fits",
             group.name, group.least_chips, chips);
      }
    }
    std::sort(by_size.begin(), by_size.end(),
              [](const Group* a, const Group* b) { return a->least_chips < b->least_chips; });
    for (size_t i = 1; i < by_size.size(); ++i) {
      const Group &low = *by_size[i - 1], &high = *by_size[i];
      if (low.most_chips != 0 && low.most_chips < high.least_chips) continue;
      fail(std::max(low.line, high.line),
           "[[groups]] {} and {}: both claim jobs of {} chips; a size belongs to one group",
           low.name, high.name, high.least_chips);
    }
  }

  void spill() {
    for (const Group& group : site_.groups) {
      const std::string where = fmt::format("[[groups]] {} spill", group.name);
      must_exist(group.spill, site_.groups, group.line, where, "group");
      if (std::count(group.spill.begin(), group.spill.end(), group.name)) {
        fail(group.line, "{}: a group cannot spill into itself", where);
      }
    }
    if (site_.preemption.mode == Preemption::kOff) return;
    for (const Group& start : site_.groups) {
      std::set<std::string> seen;
      std::vector<std::string> open = start.spill;
      while (!open.empty()) {
        const std::string name = open.back();
        open.pop_back();
        if (name == start.name) {
          fail(start.line,
               "[[groups]] {}: it spills into itself by way of others, so that jobs would preempt "
               "each other for ever: take one spill out, or turn preemption off",
               start.name);
        }
        if (!seen.insert(name).second) continue;
        for (const Group& group : site_.groups) {
          if (group.name == name) open.insert(open.end(), group.spill.begin(), group.spill.end());
        }
      }
    }
  }

  void queues() {
    if (site_.queues.empty()) {
      site_.queues.push_back({.name = "normal", .is_default = true, .line = 1});
    }
    different_names(site_.queues, "queues");
    const Queue* is_default = nullptr;
    for (Queue& queue : site_.queues) {
      const std::string where = fmt::format("[[queues]] {}", queue.name);
      must_exist(queue.groups, site_.groups, queue.line, where, "group");
      if (queue.preempts && site_.preemption.mode == Preemption::kOff) {
        fail(queue.line, "{}: it preempts, but [preemption] mode is off", where);
      }
      if (queue.is_default && is_default) {
        fail(queue.line, "{}: {} is the default already (line {})", where, is_default->name,
             is_default->line);
      }
      if (queue.is_default) is_default = &queue;
      if (queue.longest_s > 0 && site_.limits.longest_s > 0 &&
          queue.longest_s > site_.limits.longest_s) {
        fail(queue.line, "{}: its max_time is more than that of [limits]", where);
      }
    }
    if (!is_default) site_.queues.front().is_default = true;
    must_exist(site_.reserve.queues, site_.queues, site_.reserve.line, "[reserve]", "queue");
    std::stable_sort(site_.queues.begin(), site_.queues.end(),
                     [](const Queue& a, const Queue& b) { return a.priority > b.priority; });
  }

  void users() { different_names(site_.users, "users"); }

  void limits() {
    Limits& limits = site_.limits;
    if (limits.longest_s == 0 || limits.default_s <= limits.longest_s) return;
    if (text_.default_time_said) fail(limits.line, "[limits]: default_time is more than max_time");
    limits.default_s = limits.longest_s;
  }

  SiteText text_;
  Site& site_;
  std::unordered_map<std::string, size_t> place_;       // a node's entry in [[nodes]]
  std::unordered_map<std::string, std::string> owner_;  // a node's group, or the reserve
};

}  // namespace

Site parse_site(std::string_view text, const std::string& file) {
  return Checker(read_toml(text, file)).check();
}

Site read_site(const std::string& path) { return parse_site(read_file(path), path); }

const Group* group_of(const Site& site, int chips) {
  for (const Group& group : site.groups) {
    if (chips < group.least_chips) continue;
    if (group.most_chips == 0 || chips <= group.most_chips) return &group;
  }
  return nullptr;
}

const NodeSet& nodes_of(const Site& site, std::string_view node) {
  for (const NodeSet& set : site.nodes) {
    if (std::find(set.names.begin(), set.names.end(), node) != set.names.end()) return set;
  }
  throw_invalid("the site has no node {}", node);
}

}  // namespace stretto::cluster
