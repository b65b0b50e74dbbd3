// main.tf.json: what all clouds have in common.
#include "stretto/cluster/terraform/terraform.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "stretto/base/error.h"
#include "stretto/cluster/embedded.h"
#include "stretto/cluster/slurm/partitions.h"
#include "stretto/cluster/slurm/slurm.h"
#include "stretto/cluster/terraform/parts.h"

namespace stretto::cluster {
namespace {

constexpr int kFirstHost = 16;
constexpr size_t kLongestGoogleName = 63 - std::string_view("-inside").size();
constexpr uint32_t kMostMachines = 4000;  // of a subnet of 4096 addresses

// By its name, so that a node which is added or removed leaves the machines of others alone.
int host_of(std::string_view name, std::set<uint32_t>& taken) {
  uint32_t place = 2166136261u;  // FNV-1a
  for (const char c : name) place = (place ^ static_cast<unsigned char>(c)) * 16777619u;
  place %= kMostMachines;
  while (!taken.insert(place).second) place = (place + 1) % kMostMachines;
  return kFirstHost + static_cast<int>(place);
}

std::vector<CloudNode> cloud_nodes_of(const Site& site, CloudProvider provider) {
  std::vector<CloudNode> all;
  std::map<std::string, std::string> taken;
  std::set<uint32_t> hosts;
  size_t count = 0;
  for (const NodeSet& set : site.nodes) count += set.names.size();
  if (count > kMostMachines) {
    throw_unsupported("{}: {} nodes: --terraform writes sites of up to {}", site.file, count,
                      kMostMachines);
  }
  for (const NodeSet& set : site.nodes) {
    if (!set.address.empty()) {
      throw_unsupported(
          "{}:{}: address: nodes in a cloud get their addresses from Terraform; leave it out, or "
          "compile without --terraform",
          site.file, set.line);
    }
    const InstanceChoice choice = instance_of(site, set, provider);
    const std::string price =
        choice.accelerator.empty()
            ? choice.type
            : fmt::format("{}+{}x{}", choice.type, set.chips, choice.accelerator);
    for (const std::string& name : set.names) {
      const std::string machine = machine_name(site, name, provider);
      // On Google the disk of the home folders is called like a machine, and machines' disks are,
      // too.
      const bool is_ours =
          name == "controller" ||
          (provider == CloudProvider::kGoogle && machine == machine_name(site, "shared", provider));
      if (is_ours || !taken.emplace(machine, name).second) {
        throw_unsupported(
            "{}:{}: node {}: its machine would have the name of another one, {}; call it otherwise",
            site.file, set.line, name, machine);
      }
      all.push_back({name, machine, price, choice, set.chips, host_of(name, hosts)});
    }
  }
  return all;
}

// What slurm.conf needs beside what write_slurm() says.
std::string head_conf(const Site& site) {
  return fmt::format(
      "# Written by `stretto cluster compile` from {}: slurm.conf of the controller is this file\n"
      "# and slurm/slurm.conf behind it. Nodes get it from the controller.\n"
      "ClusterName={}\n"
      "SlurmctldHost=controller\n"
      "SlurmctldParameters=enable_configless\n"
      "SlurmUser=slurm\n"
      "AuthType=auth/munge\n"
      "StateSaveLocation=/shared/slurm\n"
      "SlurmdSpoolDir=/var/lib/slurm/slurmd\n"
      "SlurmctldPidFile=/run/slurmctld.pid\n"
      "SlurmdPidFile=/run/slurmd.pid\n"
      "SlurmctldLogFile=/var/log/slurm/slurmctld.log\n"
      "SlurmdLogFile=/var/log/slurm/slurmd.log\n"
      "ProctrackType=proctrack/linuxproc\n"
      "TaskPlugin=task/none\n"
      "MpiDefault=none\n"
      "MpiParams=ports=20000-23999\n"
      "SelectType=select/cons_tres\n"
      "SelectTypeParameters=CR_Core\n"
      "EnforcePartLimits=ALL\n"
      "ReturnToService=2\n"
      "SchedulerParameters=preempt_youngest_first,preempt_send_user_signal\n\n",
      in_comment(site.file), conf_word(site.name));
}

TerraformJson variables_of(const std::vector<CloudNode>& nodes, std::string_view controller) {
  TerraformJson all;
  all["ssh_public_key"] =
      terraform_variable("string", "The public key that logs in at the controller: one line");
  all["ssh_public_key"]["validation"] = {
      {"condition", "${can(regex(\"^[a-z0-9@.-]+ [A-Za-z0-9+/=]+[^\\n]*$\", var.ssh_public_key))}"},
      {"error_message",
       "ssh_public_key: expected the line of a public key, such as ssh-ed25519 "
       "AAAA... me@here."}};
  all["allow_from"] =
      terraform_variable("list(string)", "Addresses that may log in by ssh: [\"203.0.113.7/32\"]");
  std::set<std::string> types{std::string(controller)};
  for (const CloudNode& node : nodes) types.insert(node.price);
  std::string list;
  for (const std::string& type : types) {
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", type);
  }
  all["hourly_prices"] = terraform_variable(
      "map(number)", fmt::format("Price of an hour of each machine, by your cloud's price list: {}",
                                 fmt::join(types, ", ")));
  all["hourly_prices"]["validation"] = {
      {"condition", fmt::format("${{alltrue([for type in [{}] : contains(keys(var.hourly_prices), "
                                "type)])}}",
                                list)},
      {"error_message", fmt::format("hourly_prices: this site needs a price for each of {}.",
                                    fmt::join(types, ", "))}};
  all["most_per_hour"] = terraform_variable(
      "number", "What all machines together may cost in an hour; beyond that nothing is made");
  all["user"] = terraform_variable("string", "Who works on this site");
  all["user"]["default"] = "stretto";
  all["user"]["validation"] = {
      {"condition", "${can(regex(\"^[a-z][a-z0-9-]{0,30}$\", var.user))}"},
      {"error_message", "user: expected up to 31 small letters, digits and '-'."}};
  all["subnet"] = terraform_variable("string", "Addresses of the site's own network");
  all["subnet"]["default"] = "10.77.0.0/20";
  all["disk_gb"] = terraform_variable("number", "System disk of a machine");
  all["disk_gb"]["default"] = 100;
  all["shared_gb"] =
      terraform_variable("number", "Disk of the home folders, which outlives the machines");
  all["shared_gb"]["default"] = 200;
  return all;
}

TerraformJson written_file(std::string_view path, std::string_view content,
                           std::string_view permissions = "0644") {
  return {{"path", path}, {"permissions", permissions}, {"content", content}};
}

// Root alone may read it. Its value is known to Terraform's state and to the machines.
TerraformJson munge_key() {
  return {{"path", "/etc/stretto/munge.key"},
          {"permissions", "0400"},
          {"encoding", "b64"},
          {"content", "${random_bytes.munge.base64}"}};
}

TerraformJson cloud_config(std::string_view host, TerraformJson files, std::string_view script) {
  return {{"hostname", host},
          {"preserve_hostname", false},
          {"manage_etc_hosts", false},  // images of Debian say true, and lose our names
          {"write_files", std::move(files)},
          {"runcmd", TerraformJson::array({TerraformJson::array({"bash", script})})}};
}

TerraformJson hosts_script() {
  return written_file("/usr/local/sbin/stretto-hosts", "${file(\"${path.module}/cloud_hosts.sh\")}",
                      "0755");
}

TerraformJson locals_of(const std::vector<CloudNode>& nodes, const Files& slurm,
                        const CloudParts& parts) {
  TerraformJson locals;
  TerraformJson by_name = TerraformJson::object();
  for (const CloudNode& node : nodes) {
    by_name[node.name] = {{"machine", node.machine}, {"type", node.instance.type},
                          {"price", node.price},     {"accelerator", node.instance.accelerator},
                          {"chips", node.chips},     {"host", node.host}};
  }
  locals["nodes"] = std::move(by_name);
  locals["cost_per_hour"] = fmt::format(
      "${{sum(concat([var.hourly_prices[\"{}\"]], [for node in local.nodes : "
      "var.hourly_prices[node.price]]))}}",
      parts.controller);
  locals["controller_address"] = fmt::format("${{cidrhost(var.subnet, {})}}", kControllerHost);
  locals["hosts"] =
      "${join(\"\", concat([\"${local.controller_address} controller\\n\"], [for name, node in "
      "local.nodes : \"${cidrhost(var.subnet, node.host)} ${name}\\n\"]))}";
  TerraformJson files = TerraformJson::array();
  files.push_back(written_file(
      "/etc/stretto/site.env",
      fmt::format("STRETTO_USER=${{var.user}}\nSTRETTO_SUBNET=${{var.subnet}}\nSTRETTO_DISK={}\n",
                  parts.disk)));
  files.push_back(written_file("/etc/stretto/hosts", "${local.hosts}"));
  files.push_back(written_file("/etc/stretto/authorized_keys", "${var.ssh_public_key}\n"));
  files.push_back(munge_key());
  for (const auto& [path, text] : slurm) {
    const std::string name = path.substr(path.find('/') + 1);
    if (name.starts_with("accounting.")) continue;  // needs a database, which this site has not
    std::string content = fmt::format("${{file(\"${{path.module}}/../slurm/{}\")}}", name);
    if (name == "slurm.conf") content = "${file(\"${path.module}/head.conf\")}" + content;
    files.push_back(written_file("/etc/stretto/slurm/" + name, content));
  }
  files.push_back(hosts_script());
  files.push_back(written_file("/usr/local/sbin/stretto-controller",
                               "${file(\"${path.module}/cloud_controller.sh\")}", "0755"));
  locals["controller"] =
      cloud_config("controller", std::move(files), "/usr/local/sbin/stretto-controller");
  TerraformJson mine = TerraformJson::array();
  mine.push_back(written_file("/etc/stretto/site.env",
                              "STRETTO_USER=${var.user}\n"
                              "STRETTO_CONTROLLER=${local.controller_address}\n"
                              "STRETTO_NODE=@NODE@\n"));
  mine.push_back(munge_key());
  mine.push_back(hosts_script());
  mine.push_back(written_file("/usr/local/sbin/stretto-node",
                              "${file(\"${path.module}/cloud_node.sh\")}", "0755"));
  locals["node"] = cloud_config("node", std::move(mine), "/usr/local/sbin/stretto-node");
  locals["tags"] = {{"stretto-site", parts.tag}};
  return locals;
}

}  // namespace

std::string terraform_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if ((c == '$' || c == '%')) out += c;
    out += c;
  }
  return out;
}

bool has_chips(const Site& site) {
  return std::ranges::any_of(site.nodes, [](const NodeSet& set) { return set.chips > 0; });
}

TerraformJson terraform_variable(std::string_view type, std::string_view description) {
  return {{"type", type}, {"description", description}};
}

std::string machine_name(const Site& site, std::string_view node, CloudProvider provider) {
  std::string name = fmt::format("{}-{}", site.name, node);
  if (provider == CloudProvider::kAws) return name;
  for (char& c : name) {
    c = c == '_' || c == '.' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (name[0] < 'a' || name[0] > 'z' || name.back() == '-' || name.size() > kLongestGoogleName) {
    throw_unsupported(
        "{}: {} is no name for a machine of Google: give the site a name that begins with a "
        "letter, and nodes short names that end in a letter or digit",
        site.file, name);
  }
  return name;
}

Files write_terraform(const Site& site, CloudProvider provider) {
  const Files slurm = write_slurm(site);
  const std::vector<CloudNode> nodes = cloud_nodes_of(site, provider);
  const CloudParts parts = provider == CloudProvider::kAws ? aws_parts(site) : google_parts(site);
  TerraformJson root;
  root["//"] =
      fmt::format("Written by `stretto cluster compile` from {}: change that file, not this one.",
                  terraform_text(in_comment(site.file)));
  root["terraform"] = {{"required_version", ">= 1.5"},
                       {"required_providers",
                        {{parts.name, parts.required_provider},
                         {"random", {{"source", "hashicorp/random"}, {"version", ">= 3.6"}}}}}};
  root["provider"] = {{parts.name, parts.provider}};
  root["variable"] = variables_of(nodes, parts.controller);
  root["variable"].update(parts.variables);
  root["locals"] = locals_of(nodes, slurm, parts);
  if (!parts.data.empty()) root["data"] = parts.data;
  root["resource"]["random_bytes"]["munge"] = {{"length", 128}};
  root["resource"]["terraform_data"]["cost"] = {
      {"input", "${local.cost_per_hour}"},
      {"lifecycle",
       {{"precondition",
         {{"condition", "${local.cost_per_hour <= var.most_per_hour}"},
          {"error_message",
           "This site costs ${local.cost_per_hour} an hour, and most_per_hour allows "
           "${var.most_per_hour}."}}}}}};
  for (const auto& [kind, resources] : parts.resources.items()) {
    root["resource"][kind].update(resources);
  }
  root["output"] = {
      {"cost_per_hour",
       {{"description", "Of all machines, by hourly_prices; disks and traffic cost extra"},
        {"value", "${local.cost_per_hour}"}}}};
  root["output"].update(parts.outputs);
  Files files;
  files["terraform/main.tf.json"] = root.dump(2) + "\n";
  files["terraform/head.conf"] = head_conf(site);
  files["terraform/cloud_controller.sh"] = std::string(cloud_controller_text());
  files["terraform/cloud_hosts.sh"] = std::string(cloud_hosts_text());
  files["terraform/cloud_node.sh"] = std::string(cloud_node_text());
  return files;
}

}  // namespace stretto::cluster
