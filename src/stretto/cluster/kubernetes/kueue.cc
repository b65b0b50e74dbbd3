// site.yaml: namespaces, Kueue's objects, and who may use which queue.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "stretto/base/error.h"
#include "stretto/cluster/kubernetes/flavors.h"
#include "stretto/cluster/kubernetes/kubernetes.h"
#include "stretto/cluster/kubernetes/objects.h"
#include "stretto/cluster/kubernetes/size_rule.h"
#include "stretto/cluster/kubernetes/yaml.h"

namespace stretto::cluster {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kApi = "kueue.x-k8s.io/v1beta2";
constexpr size_t kMostFlavors = 64, kMostResources = 64;  // of Kueue's schema
constexpr const char* kRackLabel = "stretto/rack";
constexpr int kPreemptingFrom = 100'000;  // above all priorities of site files

bool is_named_in(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

class Writer {
 public:
  explicit Writer(const Site& site)
      : site_(site), name_(kubernetes_name(site.name)), flavors_(flavors_of(site)) {}

  void write() {
    check();
    namespaces();
    flavors();
    priorities();
    for (const Group& group : site_.groups) cluster_queue(group.name, group.line);
    if (site_.reserve.line > 0) cluster_queue("", site_.reserve.line);
    local_queues();
  }

  const std::string& text() const { return out_; }
  std::vector<KubernetesObject> objects() { return std::move(objects_); }

 private:
  void add(int line, const Json& object) {
    out_ += fmt::format("---\n# {}:{}\n{}", in_comment(site_.file), line, to_yaml(object));
    objects_.push_back({line, object});
  }

  void note(std::string_view text) { out_ += fmt::format("# {}\n", in_comment(text)); }

  Json object(std::string_view api, std::string_view kind, const std::string& name) const {
    return {{"apiVersion", api}, {"kind", kind}, {"metadata", {{"name", name}}}};
  }

  bool anyone_preempts() const {
    return std::any_of(site_.queues.begin(), site_.queues.end(),
                       [](const Queue& queue) { return queue.preempts; });
  }

  void check() {
    out_ = fmt::format(
        "# Written by `stretto cluster compile` from {}: change that file, not this one.\n"
        "# For a cluster with Kueue 0.14 or later. Nodes need the labels of label-nodes.sh.\n",
        in_comment(site_.file));
    for (const Queue& queue : site_.queues) {
      if (queue.most_chips > 0) {
        note(fmt::format("Not expressed here: max_chips of queue {} (line {}).", queue.name,
                         queue.line));
      }
    }
    for (const User& user : site_.users) {
      note(fmt::format("Not expressed here: share and max_chips of user {} (line {}).", user.name,
                       user.line));
    }
    std::set<std::string> names;
    for (const Queue& queue : site_.queues) {
      if (!names.insert(kubernetes_name(queue.name)).second) {
        throw_unsupported("{}:{}: two queues would be called {} in Kubernetes: rename one",
                          site_.file, queue.line, kubernetes_name(queue.name));
      }
    }
    names.clear();
    if (site_.reserve.line > 0) names.insert(kReserveName);
    for (const Group& group : site_.groups) {
      if (!names.insert(kubernetes_name(group.name)).second) {
        throw_unsupported("{}:{}: the name {} is taken in Kubernetes: rename this group",
                          site_.file, group.line, kubernetes_name(group.name));
      }
    }
    // Within a ClusterQueue, jobs preempt all that have a lower priority or none.
    if (!anyone_preempts()) return;
    const Queue* calm = nullptr;
    for (const Queue& queue : site_.queues) {
      if (queue.preempts && calm) {
        throw_unsupported(
            "{}:{}: Kueue cannot let queue {} preempt while {}, which has no lower "
            "priority, does not",
            site_.file, queue.line, queue.name, calm->name);
      }
      if (queue.preempts) continue;
      if (calm && calm->priority != queue.priority) {
        throw_unsupported(
            "{}:{}: where some queues preempt, Kueue lets all of higher priority do so: give queue "
            "{} the priority of {}, or let the higher one preempt",
            site_.file, queue.line, queue.name, calm->name);
      }
      calm = &queue;
    }
  }

  std::string namespace_of(const Queue& queue) const {
    return queue.users.empty() ? name_ : fmt::format("{}-{}", name_, kubernetes_name(queue.name));
  }

  void namespaces() {
    std::set<std::string> done;
    for (const Queue& queue : site_.queues) {
      const std::string name = namespace_of(queue);
      if (!done.insert(name).second) continue;
      Json space = object("v1", "Namespace", name);
      space["metadata"]["labels"] = {{"stretto/site", name_}};
      if (!site_.kubernetes.pod_security.empty()) {
        note(fmt::format("The next one enforces pod_security (line {}).", site_.kubernetes.line));
        space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] =
            site_.kubernetes.pod_security;
      }
      add(queue.users.empty() ? 1 : queue.line, space);
      if (queue.users.empty()) continue;
      Json binding = object("rbac.authorization.k8s.io/v1", "RoleBinding", "users");
      binding["metadata"]["namespace"] = name;
      binding["roleRef"] = {
          {"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "ClusterRole"}, {"name", "edit"}};
      for (const std::string& user : queue.users) {
        binding["subjects"].push_back(
            {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "User"}, {"name", user}});
      }
      add(queue.line, binding);
    }
  }

  void flavors() {
    const auto has_racks = [](const Flavor& flavor) { return flavor.racks; };
    const bool racks = std::any_of(flavors_.begin(), flavors_.end(), has_racks);
    const std::string topology = name_ + "-racks", hosts = name_ + "-hosts";
    const Json host = {{"nodeLabel", "kubernetes.io/hostname"}};
    if (racks) {
      Json object_ = object(kApi, "Topology", topology);
      object_["spec"]["levels"] = {{{"nodeLabel", kRackLabel}}, host};
      add(1, object_);
    }
    // Of a queue with and without topologies, Kueue gives jobs that ask for none the flavors
    // without, and never the others.
    if (racks && !std::all_of(flavors_.begin(), flavors_.end(), has_racks)) {
      Json object_ = object(kApi, "Topology", hosts);
      object_["spec"]["levels"] = Json::array({host});
      add(1, object_);
    }
    for (const Flavor& flavor : flavors_) {
      Json each = object(kApi, "ResourceFlavor", flavor.name);
      each["spec"]["nodeLabels"]["stretto/group"] =
          flavor.group.empty() ? kReserveName : kubernetes_name(flavor.group);
      each["spec"]["nodeLabels"]["stretto/chip"] = flavor.chip.empty() ? "none" : flavor.chip;
      if (racks) each["spec"]["topologyName"] = flavor.racks ? topology : hosts;
      // What Kubernetes' own plugin adds where it is on: nodes with chips are often closed to
      // others.
      if (!flavor.chip.empty()) {
        each["spec"]["tolerations"] = Json::array({{{"key", site_.chips.at(flavor.chip).resource},
                                                    {"operator", "Exists"},
                                                    {"effect", "NoSchedule"}}});
      }
      add(flavor.line, each);
    }
  }

  void priorities() {
    for (const Queue& queue : site_.queues) {
      Json each = object(kApi, "WorkloadPriorityClass", kubernetes_name(queue.name));
      each["value"] = queue.priority + (queue.preempts ? kPreemptingFrom : 0);
      each["description"] = fmt::format("Jobs of queue {}", queue.name);
      add(queue.line, each);
    }
  }

  // All resources that any flavor has. A job is never admitted if it asks for one that its queue
  // does not cover, so memory is covered even where its amount is not said.
  std::vector<std::string> resources() const {
    std::set<std::string> all;
    for (const Flavor& flavor : flavors_) {
      for (const auto& [name, count] : flavor.capacity) all.insert(name);
    }
    return {all.begin(), all.end()};
  }

  static Json amount(const std::string& resource, int64_t count) {
    if (resource != "memory") return count;
    return count == 0 ? Json("1000Ti") : Json(fmt::format("{}Mi", count));
  }

  // `own` decides whether the queue owns the chips or borrows them from those who do.
  Json quota(const Flavor& flavor, bool own) const {
    Json list = Json::array();
    for (const std::string& resource : resources()) {
      const auto found = flavor.capacity.find(resource);
      const int64_t count = found == flavor.capacity.end() ? 0 : found->second;
      const bool unknown = resource == "memory" && count == 0;
      Json each = {{"name", resource}};
      each["nominalQuota"] = own && (count > 0 || unknown) ? amount(resource, count) : Json(0);
      if (!own && count > 0) each["borrowingLimit"] = amount(resource, count);
      if (own && flavor.group.empty() && !site_.reserve.lend) each["lendingLimit"] = 0;
      list.push_back(std::move(each));
    }
    return {{"name", flavor.name}, {"resources", std::move(list)}};
  }

  // Of a group; "" is the reserve.
  void cluster_queue(const std::string& group, int line) {
    Json queue =
        object(kApi, "ClusterQueue",
               fmt::format("{}-{}", name_, kubernetes_name(group.empty() ? kReserveName : group)));
    Json& spec = queue["spec"];
    spec["cohortName"] = name_;
    spec["namespaceSelector"]["matchLabels"]["stretto/site"] = name_;
    if (site_.preemption.mode != Preemption::kOff) {
      Json& preemption = spec["preemption"];
      preemption["withinClusterQueue"] = anyone_preempts() ? "LowerPriority" : "Never";
      preemption["reclaimWithinCohort"] = "Any";
    }
    // Idle nodes anywhere first, then those that others have to leave.
    spec["flavorFungibility"] = {{"whenCanBorrow", "TryNextFlavor"},
                                 {"whenCanPreempt", "TryNextFlavor"}};
    Json list = Json::array();
    const auto add_flavors = [&](const std::string& of, bool own) {
      for (const Flavor& flavor : flavors_) {
        if (flavor.group == of) list.push_back(quota(flavor, own));
      }
    };
    add_flavors(group, true);
    for (const Group& other : site_.groups) {
      const bool reserve = group.empty();
      const bool spills = !reserve && is_named_in(named(group).spill, other.name);
      if (reserve || spills) add_flavors(other.name, false);
    }
    if (!group.empty() && site_.reserve.line > 0 && site_.reserve.lend) add_flavors("", false);
    if (list.size() > kMostFlavors || resources().size() > kMostResources) {
      throw_unsupported(
          "{}:{}: Kueue takes {} flavors and resources per queue at most, this one "
          "needs {} and {}",
          site_.file, line, kMostFlavors, list.size(), resources().size());
    }
    Json resource_group = {{"coveredResources", resources()}, {"flavors", std::move(list)}};
    spec["resourceGroups"] = Json::array({std::move(resource_group)});
    if (in_racks(queue)) rack_queues_.insert(queue["metadata"]["name"].get<std::string>());
    add(line, queue);
  }

  // Whether all nodes that jobs of a ClusterQueue may get are in racks with names.
  bool in_racks(const Json& queue) const {
    const Json& flavors = queue["spec"]["resourceGroups"][0]["flavors"];
    return std::all_of(flavors.begin(), flavors.end(), [&](const Json& each) {
      return std::any_of(flavors_.begin(), flavors_.end(), [&](const Flavor& flavor) {
        return flavor.racks && flavor.name == each["name"];
      });
    });
  }

  const Group& named(const std::string& name) const {
    return *std::find_if(site_.groups.begin(), site_.groups.end(),
                         [&](const Group& group) { return group.name == name; });
  }

  void local_queues() {
    for (const LocalQueueName& each : local_queues_of(site_)) {
      Json local = object(kApi, "LocalQueue", each.name);
      local["metadata"]["namespace"] = namespace_of(*each.queue);
      local["spec"]["clusterQueue"] = fmt::format(
          "{}-{}", name_, kubernetes_name(each.group ? each.group->name : kReserveName));
      // By which `stretto cluster run` asks for one rack.
      if (rack_queues_.count(local["spec"]["clusterQueue"].get<std::string>())) {
        local["metadata"]["annotations"] = {{"stretto/topology", kRackLabel}};
      }
      add(each.queue->line, local);
    }
  }

  const Site& site_;
  std::string name_;
  std::vector<Flavor> flavors_;
  std::string out_;
  std::vector<KubernetesObject> objects_;
  std::set<std::string> rack_queues_;  // ClusterQueues whose nodes are all in racks
};

// kubectl has to be told once; nodes that join later need the same labels.
std::string label_nodes(const Site& site) {
  std::string out =
      fmt::format("#!/bin/sh\n# Written by `stretto cluster compile` from {}.\nset -eu\n",
                  in_comment(site.file));
  std::string flavor;
  for (const NodeLabels& node : node_labels_of(site)) {
    if (node.flavor != flavor) out += fmt::format("# {}:{}\n", in_comment(site.file), node.line);
    flavor = node.flavor;
    out += fmt::format("kubectl label --overwrite node {}", shell_word(node.name));
    for (const auto& [key, value] : node.labels) {
      out += fmt::format(" {}={}", key, shell_word(value));
    }
    out += '\n';
  }
  return out;
}

}  // namespace

std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,:/@+-=";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string kubernetes_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    if (!plain && c != '_' && !(c >= 'A' && c <= 'Z')) {
      throw_unsupported("'{}' is no name for Kubernetes", in_comment(name));
    }
    out += c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (out.empty() || out.front() == '-' || out.back() == '-' || out.size() > 63) {
    throw_unsupported(
        "'{}' is no name for Kubernetes: it has to begin and end with a letter or digit",
        in_comment(name));
  }
  return out;
}

std::vector<LocalQueueName> local_queues_of(const Site& site) {
  std::vector<LocalQueueName> all;
  for (const Queue& queue : site.queues) {
    if (is_named_in(site.reserve.queues, queue.name)) {
      all.push_back({kubernetes_name(queue.name) + "-" + kReserveName, &queue, nullptr});
    }
    for (const Group& group : site.groups) {
      if (!queue.groups.empty() && !is_named_in(queue.groups, group.name)) continue;
      all.push_back(
          {kubernetes_name(queue.name) + "-" + kubernetes_name(group.name), &queue, &group});
    }
  }
  return all;
}

std::vector<KubernetesObject> kubernetes_objects(const Site& site) {
  Writer writer(site);
  writer.write();
  std::vector<KubernetesObject> all = writer.objects();
  for (Json& object : size_rule_objects(site)) {
    all.push_back({site.groups.front().line, std::move(object)});
  }
  return all;
}

Files write_kubernetes(const Site& site) {
  Writer writer(site);
  writer.write();
  return {{"kubernetes/site.yaml", writer.text()},
          {"kubernetes/size-rule.yaml", size_rule(site)},
          {"kubernetes/label-nodes.sh", label_nodes(site)}};
}

}  // namespace stretto::cluster
