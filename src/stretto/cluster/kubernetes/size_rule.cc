#include "stretto/cluster/kubernetes/size_rule.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "stretto/cluster/kubernetes/kubernetes.h"
#include "stretto/cluster/kubernetes/objects.h"
#include "stretto/cluster/kubernetes/yaml.h"
#include "stretto/cluster/output.h"

namespace stretto::cluster {
namespace {

using Json = nlohmann::ordered_json;

// A text in CEL, whose escapes are those of JSON.
std::string cel_text(std::string_view text) {
  return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

// The chips of a pod that `spec` describes.
std::string chips_of_pod(const Site& site, std::string_view spec) {
  std::set<std::string> resources;
  for (const auto& [name, chip] : site.chips) resources.insert(chip.resource);
  std::string sum;
  for (const std::string& resource : resources) {
    const std::string key = cel_text(resource);
    sum += fmt::format("{}({} in c.resources.limits ? int(string(c.resources.limits[{}])) : 0)",
                       sum.empty() ? "" : " + ", key, key);
  }
  if (sum.empty()) sum += '0';
  return fmt::format(
      "{}.containers.map(c, has(c.resources) && has(c.resources.limits) ? ({}) : 0).sum()", spec,
      sum);
}

std::string sizes_in_words(const Group& group) {
  if (group.chipless) return "no chips";
  if (group.most_chips == 0) return fmt::format("{} chips or more", group.least_chips);
  if (group.most_chips == group.least_chips) return fmt::format("{} chips", group.least_chips);
  return fmt::format("{} to {} chips", group.least_chips, group.most_chips);
}

}  // namespace

std::vector<Json> size_rule_objects(const Site& site) {
  const std::string name = kubernetes_name(site.name) + "-sizes";
  Json policy = {{"apiVersion", "admissionregistration.k8s.io/v1"},
                 {"kind", "ValidatingAdmissionPolicy"},
                 {"metadata", {{"name", name}}}};
  Json& spec = policy["spec"];
  spec["failurePolicy"] = "Fail";
  spec["matchConstraints"]["resourceRules"] = {{{"apiGroups", {"batch"}},
                                                {"apiVersions", {"v1"}},
                                                {"operations", {"CREATE", "UPDATE"}},
                                                {"resources", {"jobs"}}},
                                               {{"apiGroups", {"jobset.x-k8s.io"}},
                                                {"apiVersions", {"v1alpha2"}},
                                                {"operations", {"CREATE", "UPDATE"}},
                                                {"resources", {"jobsets"}}}};
  // The jobs of a JobSet were checked as a whole with it. Anybody can write that a job belongs to
  // one, so this holds for those only that JobSet's controller writes, who may write what a JobSet
  // has come to. A suspended job may be given a queue later; other changes are those of
  // controllers, and are left alone.
  spec["matchConditions"] = {
      {{"name", "has-a-queue"},
       {"expression",
        "has(object.metadata.labels) && 'kueue.x-k8s.io/queue-name' in object.metadata.labels"}},
      {{"name", "is-no-part"},
       {"expression",
        "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(o, "
        "o.kind == 'JobSet' && o.apiVersion.startsWith('jobset.x-k8s.io/') && has(o.controller) && "
        "o.controller) || !authorizer.group('jobset.x-k8s.io').resource('jobsets')"
        ".subresource('status').namespace(request.namespace).check('update').allowed()"}},
      {{"name", "comes-into-the-queue"},
       {"expression",
        "request.operation == 'CREATE' || !has(oldObject.metadata.labels) || "
        "!('kueue.x-k8s.io/queue-name' in oldObject.metadata.labels) || "
        "oldObject.metadata.labels['kueue.x-k8s.io/queue-name'] != "
        "object.metadata.labels['kueue.x-k8s.io/queue-name']"}}};
  const std::string job = chips_of_pod(site, "object.spec.template.spec");
  const std::string part = chips_of_pod(site, "r.template.spec.template.spec");
  spec["variables"] = {
      {{"name", "queue"}, {"expression", "object.metadata.labels['kueue.x-k8s.io/queue-name']"}},
      {{"name", "chips"},
       {"expression",
        fmt::format("object.kind == 'JobSet' ? object.spec.replicatedJobs.map(r, "
                    "(has(r.replicas) ? r.replicas : 1) * (has(r.template.spec.parallelism) ? "
                    "r.template.spec.parallelism : 1) * ({})).sum() : "
                    "(has(object.spec.parallelism) ? object.spec.parallelism : 1) * ({})",
                    part, job)}}};
  Json validations = Json::array();
  for (const LocalQueueName& each : local_queues_of(site)) {
    if (!each.group) continue;
    const Group& group = *each.group;
    std::string fits = fmt::format("variables.chips >= {}", group.least_chips);
    if (group.most_chips > 0 || group.chipless)
      fits += fmt::format(" && variables.chips <= {}", group.most_chips);
    validations.push_back(
        {{"expression", fmt::format("variables.queue != {} || ({})", cel_text(each.name), fits)},
         {"message", fmt::format("queue {} is for jobs of {}", each.name, sizes_in_words(group))}});
  }
  spec["validations"] = std::move(validations);
  Json binding = {{"apiVersion", "admissionregistration.k8s.io/v1"},
                  {"kind", "ValidatingAdmissionPolicyBinding"},
                  {"metadata", {{"name", name}}},
                  {"spec",
                   {{"policyName", name},
                    {"validationActions", {"Deny"}},
                    {"matchResources",
                     {{"namespaceSelector",
                       {{"matchLabels", {{"stretto/site", kubernetes_name(site.name)}}}}}}}}}};
  return {std::move(policy), std::move(binding)};
}

std::string size_rule(const Site& site) {
  const std::vector<Json> objects = size_rule_objects(site);
  return fmt::format(
      "# Written by `stretto cluster compile` from {}: sizes of [[groups]].\n{}---\n{}",
      in_comment(site.file), to_yaml(objects[0]), to_yaml(objects[1]));
}

}  // namespace stretto::cluster
