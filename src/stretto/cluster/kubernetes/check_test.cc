#include "stretto/cluster/kubernetes/check.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/cluster/kubernetes/objects.h"

namespace stretto::cluster {
namespace {

using Json = nlohmann::ordered_json;

const char* const kSite =
    "name = \"lab\"\n[[nodes]]\nnames = \"m[0-2]\"\nchip = \"v100\"\nchips = 8\ncores = 16\n"
    "memory_gb = 64\nrack = \"a\"\n"
    "[[groups]]\nname = \"one\"\nnodes = \"m0\"\nchips = \"0-1\"\nspill = [\"more\"]\n"
    "[[groups]]\nname = \"more\"\nnodes = \"m[1-2]\"\nchips = \"2+\"\n";

// As a cluster has it after kubectl apply: with defaults, states and other texts for amounts.
Json live_list(const Site& site) {
  Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", Json::array()}};
  for (auto& [line, object] : kubernetes_objects(site)) {
    object["metadata"]["uid"] = "1234";
    object["metadata"]["labels"]["kubernetes.io/metadata.name"] = "x";
    object["status"]["conditions"] = Json::array();
    if (object["kind"] == "ClusterQueue") {
      object["spec"]["queueingStrategy"] = "BestEffortFIFO";
      object["spec"]["stopPolicy"] = "None";
      object["spec"]["preemption"]["borrowWithinCohort"] = {{"policy", "Never"}};
      for (Json& flavor : object["spec"]["resourceGroups"][0]["flavors"]) {
        for (Json& each : flavor["resources"]) {
          if (each["nominalQuota"] == "65536Mi") each["nominalQuota"] = "64Gi";
          if (each["nominalQuota"].is_number()) {
            each["nominalQuota"] = std::to_string(each["nominalQuota"].get<int>());
          }
        }
      }
    }
    if (object["kind"] == "ValidatingAdmissionPolicy") {
      object["spec"]["matchConstraints"]["matchPolicy"] = "Equivalent";
      object["spec"]["matchConstraints"]["resourceRules"][0]["scope"] = "*";
    }
    list["items"].push_back(object);
  }
  for (const NodeLabels& each : node_labels_of(site)) {
    Json node = {{"kind", "Node"}, {"metadata", {{"name", each.name}}}};
    for (const auto& [key, value] : each.labels) node["metadata"]["labels"][key] = value;
    node["status"]["capacity"] = {{"cpu", "16"}, {"nvidia.com/gpu", "8"}};
    list["items"].push_back(std::move(node));
  }
  return list;
}

Json& item(Json& list, const std::string& kind, const std::string& name) {
  for (Json& each : list["items"]) {
    if (each["kind"] == kind && each["metadata"]["name"] == name) return each;
  }
  throw_invalid("no {} {}", kind, name);
}

std::string in_words(const Site& site, const Json& list) {
  std::string out;
  for (const Difference& each : kubernetes_differences(site, list.dump())) {
    out += each.what + "|" + each.key + "|" + each.expected + "|" + each.found + "|" +
           std::to_string(each.line) + "\n";
  }
  return out;
}

TEST(CheckKubernetes, DefaultsAndOtherTextsForAmountsAreNoDifferences) {
  const Site site = parse_site(kSite, "s");
  EXPECT_EQ(in_words(site, live_list(site)), "");
}

TEST(CheckKubernetes, DifferencesNameObjectFieldAndLine) {
  const Site site = parse_site(kSite, "s");
  Json list = live_list(site);
  Json& queue = item(list, "ClusterQueue", "lab-more");
  queue["spec"]["cohortName"] = "other";
  queue["spec"]["stopPolicy"] = "Hold";
  queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "31";
  queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][1]["lendingLimit"] = 0;
  item(list, "WorkloadPriorityClass", "normal")["value"] = 11;
  item(list, "Namespace", "lab")["metadata"]["labels"].erase("stretto/site");
  EXPECT_EQ(in_words(site, list),
            "Namespace lab|metadata.labels.stretto/site|lab||1\n"
            "WorkloadPriorityClass normal|value|10|11|1\n"
            "ClusterQueue lab-more|spec.cohortName|lab|other|14\n"
            "ClusterQueue lab-more|spec.resourceGroups[0].flavors[more-v100].resources[cpu]."
            "nominalQuota|32|31|14\n"
            "ClusterQueue lab-more|spec.resourceGroups[0].flavors[more-v100].resources[memory]."
            "lendingLimit||0|14\n"
            "ClusterQueue lab-more|spec.stopPolicy||Hold|14\n");
}

TEST(CheckKubernetes, MissingAndFurtherObjectsAreDifferences) {
  const Site site = parse_site(kSite, "s");
  Json list = live_list(site);
  item(list, "LocalQueue", "normal-one")["metadata"]["name"] = "old-one";
  item(list, "ResourceFlavor", "one-v100")["metadata"]["name"] = "old-v100";
  item(list, "ValidatingAdmissionPolicyBinding",
       "lab-sizes")["spec"]["validationActions"] = {"Warn"};
  Json further = item(list, "ClusterQueue", "lab-one");
  further["metadata"]["name"] = "guests";
  list["items"].push_back(std::move(further));
  EXPECT_EQ(in_words(site, list),
            "ResourceFlavor one-v100||an object||9\n"
            "LocalQueue lab/normal-one||an object||1\n"
            "ValidatingAdmissionPolicyBinding lab-sizes|spec.validationActions[0]|Deny|Warn|9\n"
            "ClusterQueue guests|||borrows and lends in cohort lab|0\n"
            "LocalQueue lab/old-one|||sends jobs to ClusterQueue lab-one|0\n");
}

TEST(CheckKubernetes, NodesNeedTheirLabelsAndChips) {
  const Site site = parse_site(kSite, "s");
  Json list = live_list(site);
  for (const char* name : {"m1", "m2"}) {
    item(list, "Node", name)["status"]["capacity"]["nvidia.com/gpu"] = "7";
  }
  item(list, "Node", "m1")["metadata"]["labels"]["stretto/group"] = "one";
  item(list, "Node", "m0")["metadata"]["name"] = "m9";
  EXPECT_EQ(in_words(site, list),
            "Node m0||a node||2\n"
            "Node m1|metadata.labels.stretto/group|more|one|14\n"
            "Nodes m[1-2]|status.capacity.nvidia.com/gpu|8|7|2\n");
}

TEST(CheckKubernetes, ElementsOfListsAreComparedByName) {
  const Site site = parse_site(std::string(kSite) + "[preemption]\nmode = \"requeue\"\n", "s");
  Json list = live_list(site);
  ASSERT_EQ(in_words(site, list), "");
  Json& flavors = item(list, "ClusterQueue", "lab-one")["spec"]["resourceGroups"][0]["flavors"];
  const Json both = flavors;
  ASSERT_EQ(both.size(), 2U);
  const std::string path = "ClusterQueue lab-one|spec.resourceGroups[0].flavors";
  flavors = Json::array({both[1], both[0]});
  EXPECT_EQ(in_words(site, list), path + " in order|one-v100, more-v100|more-v100, one-v100|9\n");
  flavors = Json::array({both[0]});
  EXPECT_EQ(in_words(site, list), path + "[more-v100]|an entry||9\n");
  flavors = Json::array({both[0], both[1], {{"name", "t4"}}});
  EXPECT_EQ(in_words(site, list), path + "[t4]||{\"name\":\"t4\"}|9\n");
  flavors = both;
  // A part that is missing is named field by field, and with the line of its table.
  item(list, "ClusterQueue", "lab-one")["spec"].erase("preemption");
  EXPECT_EQ(in_words(site, list),
            "ClusterQueue lab-one|spec.preemption.withinClusterQueue|Never||18\n"
            "ClusterQueue lab-one|spec.preemption.reclaimWithinCohort|Any||18\n");
}

TEST(CheckKubernetes, LongTextsAreNotShown) {
  const Site site = parse_site(kSite, "s");
  Json list = live_list(site);
  Json& rule = item(list, "ValidatingAdmissionPolicy", "lab-sizes")["spec"]["validations"][0];
  ASSERT_GT(rule["expression"].get<std::string>().size(), 80U);
  rule["expression"] = "true";
  EXPECT_EQ(in_words(site, list),
            "ValidatingAdmissionPolicy lab-sizes|spec.validations[0].expression|the text that "
            "compile writes|another text|9\n");
}

TEST(CheckKubernetes, WhatKubectlDidNotPrintIsRefused) {
  const Site site = parse_site(kSite, "s");
  for (const char* text :
       {"", "{", "[]", "{\"items\": 1}", "{\"items\": [1]}", "{\"items\": [{\"kind\": \"Node\"}]}",
        "{\"items\": [{\"metadata\": {}}]}", "error: no server\n"}) {
    EXPECT_THROW(kubernetes_differences(site, text), FormatError) << text;
  }
  const std::string deep = "{\"items\": [" + std::string(200'000, '[');
  EXPECT_THROW(kubernetes_differences(site, deep), FormatError);
  // Objects of another shape than anybody expects are different, not trouble.
  Json list = live_list(site);
  for (Json& each : list["items"]) each["spec"] = Json::array({1, "x", nullptr});
  EXPECT_NE(in_words(site, list), "");
}

}  // namespace
}  // namespace stretto::cluster
