#include "stretto/cluster/site_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stretto/base/error.h"

namespace stretto::cluster {
namespace {

constexpr KeyTable kTables[] = {
    {"", false, "The top of the file, before any table."},
    {"chips.KIND", false,
     "A kind of accelerator. What is not said has the value for NVIDIA's, so that most sites need "
     "no "
     "such table. A kind that only `[[nodes]]` name has these values too."},
    {"nodes", true, "Nodes that are alike. There has to be at least one such table."},
    {"groups", true,
     "Nodes that serve jobs of certain sizes. Every node is in one group or in the reserve. A site "
     "without groups has one, `all`, of all nodes outside the reserve."},
    {"reserve", false, "Nodes that are held for some queues."},
    {"preemption", false, "What happens to jobs whose chips others take."},
    {"queues", true,
     "Who waits before whom. A site without queues has one, `normal`. Jobs name a queue where they "
     "would name a partition: `sbatch -p urgent`."},
    {"users", true, "Shares and limits of single users; others have a share of 1."},
    {"limits", false, "What holds for every job."},
    {"kubernetes", false, "What holds on Kubernetes only."},
};

constexpr double kMostChips = 1e7;
using enum KeyKind;

constexpr Key kKeys[] = {
    {"", "name", kName, "The cluster's name for Slurm.", "\"site\"", ""},

    {"chips.KIND", "gres", kGres, "Its name and type for Slurm.", "", "`gpu:KIND`"},
    {"chips.KIND", "devices", kDevices,
     "The device files of one node; a node with fewer chips has the first of them. Empty: Slurm "
     "counts the chips, but shows jobs no device. Slurm refuses this for those called `gpu`.",
     "", "`/dev/nvidia0` and so on for those called `gpu`, otherwise empty"},
    {"chips.KIND", "resource", kResource, "Its name for Kubernetes.", "\"nvidia.com/gpu\"", ""},

    {"nodes", "names", kNodes, "Their names: `m[0-3],r0`.", "", "", {.required = true}},
    {"nodes", "chip", kName, "The kind of accelerator.", "", "no accelerators"},
    {"nodes",
     "chips",
     kCount,
     "How many of them one node has.",
     "0",
     "",
     {.least = 0, .most = 1024}},
    {"nodes",
     "cores",
     kCount,
     "Processor cores of one node.",
     "1",
     "",
     {.least = 1, .most = 65536}},
    {"nodes",
     "memory_gb",
     kNumber,
     "Memory of one node in GiB; 0: not said.",
     "0",
     "",
     {.least = 0, .most = 1e6}},
    {"nodes", "build", kName, "Which build of a program runs here.", "", "`chip`, or `cpu`"},
    {"nodes", "rack", kName, "Where they are. Jobs are placed in one rack where racks are named.",
     "", "not said"},
    {"nodes", "address", kHosts,
     "Where the machines are, as many as `names`, if their names do not resolve.", "", "the names"},
    {"nodes", "instance", kResource, "Its type in a cloud, for `--terraform`.", "",
     "by chips, cores and memory"},

    {"groups", "name", kName, "Its name.", "", "", {.required = true}},
    {"groups", "nodes", kNodes, "Its nodes.", "", "", {.required = true}},
    {"groups", "chips", kSizes, "The sizes of its jobs, in chips on all nodes together.", "\"0+\"",
     ""},
    {"groups", "spill", kNames,
     "Groups in which its jobs may run while they are free there. The jobs of those groups preempt "
     "them, if preemption is on.",
     "[]", ""},

    {"reserve", "nodes", kNodes, "The nodes.", "", "", {.required = true}},
    {"reserve",
     "queues",
     kNames,
     "The queues whose jobs run here first.",
     "",
     "",
     {.required = true}},
    {"reserve", "lend", kTruth,
     "Whether jobs of other queues may run here while the nodes are idle. The owners preempt them.",
     "", "`true`, if preemption is on"},

    {"preemption",
     "mode",
     kChoice,
     "Preempted jobs start again later (`requeue`), or end (`cancel`), or no job is preempted "
     "(`off`).",
     "\"requeue\"",
     "",
     {.choices = "off|requeue|cancel"}},
    {"preemption",
     "grace_s",
     kCount,
     "Seconds between SIGTERM, on which a job saves a checkpoint, and its end.",
     "60",
     "",
     {.least = 0, .most = 86400}},

    {"queues", "name", kName, "Its name.", "", "", {.required = true}},
    {"queues",
     "priority",
     kCount,
     "Jobs of queues with a higher one start first.",
     "10",
     "",
     {.least = 0, .most = 10000}},
    {"queues", "preempts", kTruth, "Whether its jobs take chips from queues of lower priority.",
     "false", ""},
    {"queues", "default", kTruth, "Whether it is the queue of jobs that name none.", "",
     "the first queue in the file"},
    {"queues", "users", kUsers, "Who may use it.", "[]", "everybody"},
    {"queues", "groups", kNames, "Where its jobs may run.", "[]", "all groups"},
    {"queues",
     "max_chips",
     kCount,
     "Chips of all its running jobs together; 0: no limit.",
     "0",
     "",
     {.least = 0, .most = kMostChips}},
    {"queues", "max_time", kTime, "The longest time of a job.", "", "that of `[limits]`"},

    {"users", "name", kUser, "As the machines know the user.", "", "", {.required = true}},
    {"users",
     "share",
     kNumber,
     "The user's share of the site, against those of others.",
     "1",
     "",
     {.least = 0.001, .most = 1000}},
    {"users",
     "max_chips",
     kCount,
     "Chips of all running jobs together; 0: no limit.",
     "0",
     "",
     {.least = 0, .most = kMostChips}},

    {"limits", "max_time", kTime, "The longest time of a job.", "", "no limit"},
    {"limits", "default_time", kTime, "The time of a job that names none.", "\"1h\"", ""},
    {"limits",
     "max_chips",
     kCount,
     "Chips of one job; 0: no limit.",
     "0",
     "",
     {.least = 0, .most = kMostChips}},
    {"limits",
     "max_nodes",
     kCount,
     "Nodes of one job; 0: no limit.",
     "0",
     "",
     {.least = 0, .most = 1e6}},

    {"kubernetes",
     "pod_security",
     kChoice,
     "The Pod Security Standard that the namespaces of its queues enforce. `stretto cluster run` "
     "writes pods that meet it.",
     "",
     "that of the cluster",
     {.choices = "privileged|baseline|restricted"}},
};

constexpr KeyForm kForms[] = {
    {kName, "a name", false, "", "_-", 63},
    {kNames, "a list of names", true, "", "_-", 63},
    {kUser, "a user's name", false, "_", "_.@-", 63},
    {kUsers, "a list of users' names", true, "_", "_.@-", 63},
    {kNodes, "names of nodes such as m[0-3],r0", false, "", "_.-[],", 65536},
    {kHosts, "addresses such as 10.0.0.[1-4]", false, "", "_.-[],:", 65536},
    {kGres, "a name and type such as gpu:v100", false, "", "_-:", 96,
     "^[a-z][a-z0-9_]*(:[A-Za-z0-9][A-Za-z0-9_-]*)?$"},
    {kDevices, "device files such as /dev/nvidia[0-7]", false, "/", "_./-[],", 4096,
     "^(/[A-Za-z0-9_./,\\[\\]-]+)?$"},
    {kResource, "a resource such as nvidia.com/gpu", false, "", "_./-", 128,
     "^[a-z0-9][a-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*$"},
    {kSizes, "sizes such as 1, 2-7 or 8+", false, "", "-+", 17, "^[0-9]{1,8}(\\+|-[0-9]{1,8})?$"},
    {kTime, "a time such as 90m, 12h, 2d or 2-00:00", false, "", "-:", 17,
     "^([0-9]{1,6}[smhd]|[0-9]{1,4}-[0-9]{1,2}(:[0-9]{2}){0,2}|[0-9]{1,4}:[0-9]{2}:[0-9]{2})$"},
    {kChoice, "one of some words", false, "", "", 16},
    {kCount, "a whole number"},
    {kNumber, "a number"},
    {kTruth, "true or false"},
};

// The characters of a form as those of a regular expression's class, with - at the end.
std::string in_class(std::string_view characters) {
  std::string out = "A-Za-z0-9", last;
  for (const char c : characters) {
    if (c == '-') {
      last = c;
    } else {
      if (c == '[' || c == ']') out += '\\';
      out += c;
    }
  }
  return out + last;
}

std::vector<std::string> split_choices(std::string_view words) {
  std::vector<std::string> all;
  for (size_t at = 0; at <= words.size();) {
    const size_t end = std::min(words.find('|', at), words.size());
    all.emplace_back(words.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

std::string pattern_of(const KeyForm& form) {
  if (!form.pattern.empty()) return std::string(form.pattern);
  return fmt::format("^[{}][{}]*$", in_class(form.first), in_class(form.others));
}

nlohmann::ordered_json schema_of(const Key& key) {
  nlohmann::ordered_json out;
  const KeyForm& form = form_of(key.kind);
  out["description"] = key.meaning;
  if (key.kind == kTruth) {
    out["type"] = "boolean";
  } else if (key.kind == kCount || key.kind == kNumber) {
    out["type"] = key.kind == kCount ? "integer" : "number";
    const auto bound = [&](double value) -> nlohmann::ordered_json {
      if (key.kind == kCount) return static_cast<int64_t>(value);
      return value;
    };
    out["minimum"] = bound(key.rules.least);
    out["maximum"] = bound(key.rules.most);
  } else if (key.kind == kChoice) {
    out["enum"] = split_choices(key.rules.choices);
  } else {
    nlohmann::ordered_json text = {
        {"type", "string"}, {"pattern", pattern_of(form)}, {"maxLength", form.longest}};
    if (form.list) {
      out["type"] = "array";
      out["items"] = std::move(text);
    } else {
      out.update(text);
    }
  }
  if (!key.fallback.empty()) out["default"] = nlohmann::ordered_json::parse(key.fallback);
  return out;
}

std::string type_in_words(const Key& key) {
  if (key.kind == kChoice)
    return fmt::format("`{}`", fmt::join(split_choices(key.rules.choices), "`, `"));
  if (key.kind == kCount || key.kind == kNumber) {
    return fmt::format("{} from {:g} to {}", form_of(key.kind).words, key.rules.least,
                       static_cast<int64_t>(key.rules.most));
  }
  return std::string(form_of(key.kind).words);
}

std::string default_in_words(const Key& key) {
  if (key.rules.required) return "required";
  if (key.otherwise.empty()) return fmt::format("`{}`", key.fallback);
  return std::string(key.otherwise);
}

}  // namespace

std::span<const KeyTable> key_tables() { return kTables; }
std::span<const Key> keys() { return kKeys; }

const Key& key_of(std::string_view table, std::string_view name) {
  const auto found = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& key) {
    return key.table == table && key.name == name;
  });
  STRETTO_CHECK(found != std::end(kKeys), "a site file has no key {} in {}", name, table);
  return *found;
}

const KeyForm& form_of(KeyKind kind) {
  return *std::find_if(std::begin(kForms), std::end(kForms),
                       [&](const KeyForm& form) { return form.kind == kind; });
}

std::string header_of(std::string_view table) {
  if (table.empty()) return "the top of the file";
  const bool many = std::any_of(std::begin(kTables), std::end(kTables), [&](const KeyTable& each) {
    return each.name == table && each.many;
  });
  return many ? fmt::format("[[{}]]", table) : fmt::format("[{}]", table);
}

nlohmann::ordered_json site_schema() {
  nlohmann::ordered_json root = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"title", "A site file of Stretto"},
      {"description", "The data of a TOML file that docs/formats/site.md describes."},
      {"type", "object"},
      {"properties", nlohmann::ordered_json::object()},
      {"required", {"nodes"}},
      {"additionalProperties", false}};
  for (const KeyTable& table : kTables) {
    nlohmann::ordered_json object = {{"type", "object"},
                                     {"properties", nlohmann::ordered_json::object()},
                                     {"additionalProperties", false}};
    std::vector<std::string> required;
    for (const Key& key : kKeys) {
      if (key.table != table.name) continue;
      nlohmann::ordered_json& properties =
          table.name.empty() ? root["properties"] : object["properties"];
      properties[std::string(key.name)] = schema_of(key);
      if (key.rules.required) required.emplace_back(key.name);
    }
    if (!required.empty()) object["required"] = required;
    if (table.name.empty()) continue;
    if (table.many) {
      nlohmann::ordered_json list = {{"type", "array"}, {"items", std::move(object)}};
      if (table.name == "nodes") list["minItems"] = 1;
      object = std::move(list);
    }
    if (table.name == "chips.KIND") {
      root["properties"]["chips"] = {
          {"type", "object"},
          {"patternProperties", {{pattern_of(form_of(kName)), std::move(object)}}},
          {"additionalProperties", false}};
    } else {
      root["properties"][std::string(table.name)] = std::move(object);
    }
  }
  return root;
}

std::string site_reference() {
  std::string out;
  for (const KeyTable& table : kTables) {
    const std::string title =
        table.name.empty() ? "Top of the file" : fmt::format("`{}`", header_of(table.name));
    out += fmt::format("### {}\n{}\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                       title, table.meaning);
    for (const Key& key : kKeys) {
      if (key.table != table.name) continue;
      out += fmt::format("| `{}` | {} | {} | {} |\n", key.name, type_in_words(key),
                         default_in_words(key), key.meaning);
    }
    out += '\n';
  }
  return out;
}

}  // namespace stretto::cluster
