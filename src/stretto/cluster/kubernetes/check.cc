#include "stretto/cluster/kubernetes/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "stretto/base/error.h"
#include "stretto/cluster/kubernetes/kubernetes.h"
#include "stretto/cluster/kubernetes/objects.h"
#include "stretto/cluster/names.h"
#include "stretto/cluster/output.h"

namespace stretto::cluster {
namespace {

using Json = nlohmann::ordered_json;

// With the version where compile names one, because a cluster may serve several.
constexpr const char* kKinds[] = {
    "namespaces",
    "rolebindings.rbac.authorization.k8s.io",
    "topologies.v1beta2.kueue.x-k8s.io",
    "resourceflavors.v1beta2.kueue.x-k8s.io",
    "workloadpriorityclasses.v1beta2.kueue.x-k8s.io",
    "clusterqueues.v1beta2.kueue.x-k8s.io",
    "localqueues.v1beta2.kueue.x-k8s.io",
    "validatingadmissionpolicies.v1.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.v1.admissionregistration.k8s.io",
    "nodes",
};

// Fields of Kueue's objects that compile leaves out, and what Kueue makes of that.
struct Default {
  std::string_view path;
  std::string_view json;
};
constexpr Default kDefaults[] = {
    {"spec.queueingStrategy", "\"BestEffortFIFO\""},
    {"spec.stopPolicy", "\"None\""},
    {"spec.preemption", R"({"borrowWithinCohort": {"policy": "Never"},
        "reclaimWithinCohort": "Never", "withinClusterQueue": "Never"})"},
    {"spec.preemption.borrowWithinCohort", R"({"policy": "Never"})"},
    {"spec.preemption.reclaimWithinCohort", "\"Never\""},
    {"spec.preemption.withinClusterQueue", "\"Never\""},
    {"spec.flavorFungibility.preference", "\"BorrowingOverPreemption\""},
    {"spec.fairSharing", R"({"weight": "1"})"},
};

constexpr size_t kShownValue = 200;  // of a value
constexpr size_t kLongText = 80;     // longer texts are compared, but not shown
constexpr int kMostDepth = 100;      // what compares and prints them calls itself

std::string shown_value(const Json& value) {
  if (value.is_array() && !value.empty() &&
      std::ranges::all_of(value, [](const Json& each) { return each.is_string(); })) {
    std::string out;
    for (const Json& each : value) {
      out += (out.empty() ? "" : ", ") + each.get_ref<const std::string&>();
    }
    return in_comment(out.substr(0, kShownValue));
  }
  std::string text = value.is_string() ? value.get<std::string>()
                                       : value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShownValue) text = text.substr(0, kShownValue) + "...";
  return in_comment(text);
}

// "768Gi", "0.5" or 16 as a number; nothing for what is no quantity.
std::optional<double> quantity(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const std::string& text = value.get_ref<const std::string&>();
  double number = 0;
  const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc()) return std::nullopt;
  const std::string_view unit(stop, static_cast<size_t>(text.data() + text.size() - stop));
  constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1},
                                                            {"m", 1e-3},
                                                            {"k", 1e3},
                                                            {"M", 1e6},
                                                            {"G", 1e9},
                                                            {"T", 1e12},
                                                            {"P", 1e15},
                                                            {"Ki", 1024.},
                                                            {"Mi", 1048576.},
                                                            {"Gi", 1073741824.},
                                                            {"Ti", 1099511627776.},
                                                            {"Pi", 1125899906842624.}};
  for (const auto& [name, factor] : kUnits) {
    if (unit == name) return number * factor;
  }
  return std::nullopt;
}

std::string text_at(const Json& object, std::initializer_list<const char*> path) {
  const Json* at = &object;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return "";
    at = &(*at)[key];
  }
  return at->is_string() ? at->get<std::string>() : "";
}

// Of a list whose elements have names, all of them different: flavors and resources of Kueue.
bool have_names(const Json& list) {
  std::set<std::string> names;
  for (const Json& each : list) {
    const std::string name = text_at(each, {"name"});
    if (name.empty() || !names.insert(name).second) return false;
  }
  return !list.empty();
}

Json element_names(const Json& list) {
  Json names = Json::array();
  for (const Json& each : list) names.push_back(each["name"]);
  return names;
}

const Json* element_named(const Json& list, const std::string& name) {
  for (const Json& each : list) {
    if (text_at(each, {"name"}) == name) return &each;
  }
  return nullptr;
}

// "ClusterQueue lab-multi", of those in a namespace "LocalQueue lab/normal-multi".
std::string name_of(const Json& object) {
  const std::string space = text_at(object, {"metadata", "namespace"});
  return in_comment(fmt::format("{} {}{}{}", text_at(object, {"kind"}), space,
                                space.empty() ? "" : "/", text_at(object, {"metadata", "name"})));
}

class KubernetesComparison {
 public:
  KubernetesComparison(const Site& site, std::string_view json) : site_(site) {
    const auto not_too_deep = [](int depth, Json::parse_event_t, Json&) {
      if (depth > kMostDepth) {
        throw FormatError("kubectl get -o json", -1, "its values are nested too deeply");
      }
      return true;
    };
    const Json list = Json::parse(json, not_too_deep, false);
    if (!list.is_object() || !list.contains("items") || !list["items"].is_array()) {
      throw FormatError("kubectl get -o json", -1, "expected a JSON object with a list of items");
    }
    for (const Json& item : list["items"]) {
      if (text_at(item, {"metadata", "name"}).empty() || text_at(item, {"kind"}).empty()) {
        throw FormatError("kubectl get -o json", -1,
                          "expected items with a kind and a name, found " + shown_value(item));
      }
      live_.emplace(name_of(item), item);
    }
  }

  std::vector<Difference> all() {
    std::set<std::string> queues, known;
    std::string cohort;
    for (const auto& [line, object] : kubernetes_objects(site_)) {
      const std::string what = name_of(object), kind = text_at(object, {"kind"});
      known.insert(what);
      if (kind == "ClusterQueue") {
        queues.insert(text_at(object, {"metadata", "name"}));
        cohort = text_at(object, {"spec", "cohortName"});
      }
      compare(what, line, object);
    }
    nodes();
    for (const auto& [what, object] : live_) {
      if (known.count(what)) continue;
      const bool is_queue =
          what.starts_with("ClusterQueue ") && text_at(object, {"spec", "cohortName"}) == cohort;
      const bool leads_here = what.starts_with("LocalQueue ") &&
                              queues.count(text_at(object, {"spec", "clusterQueue"})) > 0;
      if (is_queue || leads_here) {
        out_.push_back({what, "", "",
                        is_queue ? fmt::format("borrows and lends in cohort {}", cohort)
                                 : fmt::format("sends jobs to ClusterQueue {}",
                                               text_at(object, {"spec", "clusterQueue"})),
                        0});
      }
    }
    return std::move(out_);
  }

 private:
  void compare(const std::string& what, int line, const Json& object) {
    const auto at = live_.find(what);
    if (at == live_.end()) {
      out_.push_back({what, "", "an object", "", line});
      return;
    }
    // Elsewhere, Kubernetes has more fields than anybody writes.
    const bool strict = text_at(object, {"apiVersion"}).starts_with("kueue.");
    for (const auto& [key, value] : object.items()) {
      if (key == "kind" || key == "apiVersion") continue;
      values(what, line, key, value, at->second.contains(key) ? at->second[key] : Json(),
             strict && key == "spec");
    }
  }

  // `strict`: what only the cluster has is a difference too, unless it is a default.
  void values(const std::string& what, int line, const std::string& path, const Json& expected,
              const Json& found, bool strict) {
    if (expected.is_object() && found.is_object()) {
      for (const auto& [key, value] : expected.items()) {
        values(what, line, path + "." + key, value, found.contains(key) ? found[key] : Json(),
               strict);
      }
      for (const auto& [key, value] : found.items()) {
        if (!strict || expected.contains(key) || is_default(path + "." + key, value)) continue;
        add(what, line, path + "." + key, "", shown_value(value));
      }
      return;
    }
    if (expected.is_object() && found.is_null() && !expected.empty()) {
      for (const auto& [key, value] : expected.items()) {
        values(what, line, path + "." + key, value, Json(), strict);
      }
      return;
    }
    if (expected.is_array() && found.is_array() && have_names(expected) && have_names(found)) {
      named_values(what, line, path, expected, found, strict);
      return;
    }
    if (expected.is_array() && found.is_array() && expected.size() == found.size()) {
      for (size_t i = 0; i < expected.size(); ++i) {
        values(what, line, fmt::format("{}[{}]", path, i), expected[i], found[i], strict);
      }
      return;
    }
    if (expected == found) return;
    const bool amount = path.ends_with("nominalQuota") || path.ends_with("Limit");
    if (amount && quantity(expected) && quantity(expected) == quantity(found)) return;
    if (found.is_string() && expected.is_string() &&
        expected.get_ref<const std::string&>().size() > kLongText) {
      add(what, line, path, "the text that compile writes", "another text");
      return;
    }
    add(what, line, path, shown_value(expected), found.is_null() ? "" : shown_value(found));
  }

  // Elements are compared by their names, which say more than their places. Of flavors the order
  // counts too: Kueue tries them one after the other.
  void named_values(const std::string& what, int line, const std::string& path,
                    const Json& expected, const Json& found, bool strict) {
    bool same = expected.size() == found.size();
    for (const Json& each : expected) {
      const std::string name = each["name"].get<std::string>();
      const std::string element = fmt::format("{}[{}]", path, name);
      if (const Json* other = element_named(found, name)) {
        values(what, line, element, each, *other, strict);
      } else {
        add(what, line, element, kEntry, "");
        same = false;
      }
    }
    for (const Json& each : found) {
      const std::string name = each["name"].get<std::string>();
      if (element_named(expected, name) == nullptr) {
        add(what, line, fmt::format("{}[{}]", path, name), "", shown_value(each));
        same = false;
      }
    }
    if (same && element_names(expected) != element_names(found)) {
      add(what, line, path + " in order", shown_value(element_names(expected)),
          shown_value(element_names(found)));
    }
  }

  void add(const std::string& what, int line, const std::string& path, std::string expected,
           std::string found) {
    const bool preemption = path.starts_with("spec.preemption") && site_.preemption.line > 0;
    out_.push_back({what, in_comment(path), std::move(expected), std::move(found),
                    preemption ? site_.preemption.line : line});
  }

  static bool is_default(const std::string& path, const Json& value) {
    if (value.is_null() || (value.is_structured() && value.empty())) return true;
    return std::any_of(std::begin(kDefaults), std::end(kDefaults), [&](const Default& each) {
      return path == each.path && nlohmann::json(value) == nlohmann::json::parse(each.json);
    });
  }

  // Nodes that differ in the same way are one difference.
  void nodes() {
    std::map<std::string, const NodeSet*> sets;
    for (const NodeSet& set : site_.nodes) {
      for (const std::string& name : set.names) sets[name] = &set;
    }
    using Key = std::tuple<int, std::string, std::string, std::string>;
    std::vector<Key> order;
    std::map<Key, std::vector<std::string>> names;
    const auto add_node = [&](const std::string& name, Key key) {
      std::vector<std::string>& all = names[key];
      if (all.empty()) order.push_back(std::move(key));
      all.push_back(name);
    };
    for (const NodeLabels& node : node_labels_of(site_)) {
      const NodeSet& set = *sets.at(node.name);
      const auto at = live_.find("Node " + node.name);
      if (at == live_.end()) {
        add_node(node.name, {set.line, "", "a node", ""});
        continue;
      }
      const Json& live = at->second;
      for (const auto& [label, value] : node.labels) {
        const std::string found = text_at(live, {"metadata", "labels", label.c_str()});
        if (found == value) continue;
        add_node(node.name, {node.line, "metadata.labels." + label, value, in_comment(found)});
      }
      if (set.chips == 0) continue;
      const std::string& resource = site_.chips.at(set.chip).resource;
      const std::string found = text_at(live, {"status", "capacity", resource.c_str()});
      if (quantity(Json(found)) != std::optional<double>(set.chips)) {
        add_node(node.name, {set.line, "status.capacity." + resource, std::to_string(set.chips),
                             in_comment(found)});
      }
    }
    for (const Key& key : order) {
      const std::vector<std::string>& which = names.at(key);
      const auto& [line, field, expected, found] = key;
      out_.push_back(
          {fmt::format("{} {}", which.size() == 1 ? "Node" : "Nodes", compact_names(which)), field,
           expected, found, line});
    }
  }

  const Site& site_;
  std::map<std::string, Json> live_;
  std::vector<Difference> out_;
};

}  // namespace

std::string kubernetes_kinds() {
  return fmt::format("{}", fmt::join(std::begin(kKinds), std::end(kKinds), ","));
}

std::vector<Difference> kubernetes_differences(const Site& site, std::string_view json) {
  return KubernetesComparison(site, json).all();
}

}  // namespace stretto::cluster
