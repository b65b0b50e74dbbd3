// stretto cluster compile SITE -o DIR or --check, stretto cluster schema.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cluster_check.h"
#include "cluster_verbs.h"
#include "stretto/base/error.h"
#include "stretto/cluster/kubernetes/kubernetes.h"
#include "stretto/cluster/site.h"
#include "stretto/cluster/site_keys.h"
#include "stretto/cluster/slurm/partitions.h"
#include "stretto/cluster/slurm/slurm.h"
#include "stretto/cluster/terraform/terraform.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

constexpr double kTimeout_s = 30;

struct CompileFlags {
  std::string site, output, target, terraform;
  bool check = false;
  std::string from;
  double timeout_s = 0;  // 0: not said
  int loopback_port = 0;
};

int run_compile(const CompileFlags& flags, const Talk& talk) {
  if (flags.check) {
    return check_site({.site = flags.site,
                       .target = flags.target,
                       .folder = flags.from,
                       .timeout_s = flags.timeout_s > 0 ? flags.timeout_s : kTimeout_s},
                      talk);
  }
  if (!flags.from.empty()) throw_invalid("cluster compile: --from needs --check");
  if (flags.timeout_s > 0) throw_invalid("cluster compile: --timeout needs --check");
  if (flags.output.empty()) {
    throw_invalid("cluster compile: -o DIR names the folder to write, or --check compares");
  }
  if (!flags.terraform.empty() && (flags.target == "kubernetes" || flags.loopback_port > 0)) {
    throw_invalid(
        "--terraform: writes a Slurm site in a cloud; leave out --for and --loopback-port");
  }
  const cluster::Site site = cluster::read_site(flags.site);
  cluster::Files files;
  if (!flags.terraform.empty()) {
    files = cluster::write_terraform(site, cluster::cloud_provider(flags.terraform));
  }
  if (flags.target != "kubernetes") {
    cluster::SlurmTarget target{.first_port = flags.loopback_port};
    if (target.first_port > 0) target.devices = cluster::character_devices();
    files.merge(cluster::write_slurm(site, target));
  }
  // What Kueue cannot express must not keep Slurm on this machine from starting.
  const bool loopback = flags.loopback_port > 0 && (flags.target.empty() || flags.target == "both");
  if (flags.target != "slurm" && !loopback && flags.terraform.empty())
    files.merge(cluster::write_kubernetes(site));
  cluster::write_folder(flags.output, files);
  std::vector<std::string> names, nodes;
  for (const auto& [name, text] : files) names.push_back(name);
  for (const cluster::NodeLine& line : cluster::node_lines_of(site)) {
    nodes.insert(nodes.end(), line.names.begin(), line.names.end());
  }
  if (talk.json) {
    print_json({{"site", site.name}, {"output", flags.output}, {"files", names}, {"nodes", nodes}});
  } else {
    for (const std::string& name : names) fmt::print("{}/{}\n", flags.output, name);
  }
  return kOk;
}

}  // namespace

std::function<int()> set_up_cluster_compile(Command& command, const Context& context) {
  auto flags = std::make_shared<CompileFlags>();
  add_option(command, "site", &flags->site, "SITE", "The site file (docs/formats/site.md)",
             {.required = true});
  add_option(command, "-o,--output", &flags->output, "DIR",
             "Folder to write, whole or not at all; one that was written before is replaced");
  add_option(command, "--for", &flags->target, "WHAT",
             "What to write or to compare with: both, unless --check finds only one of them",
             {.one_of = {"slurm", "kubernetes", "both"}});
  add_flag(command, "--check", &flags->check,
           "Write nothing: compare with what the scheduler has (scontrol show, kubectl get)",
           {.group = "Comparison", .excludes = "--output"});
  add_option(command, "--from", &flags->from, "DIR",
             "Saved texts of scontrol or kubectl, in place of a scheduler that is up",
             {.group = "Comparison"});
  add_option(command, "--timeout", &flags->timeout_s, "SECONDS",
             fmt::format("How long a scheduler may take to answer ({} if not said)", kTimeout_s),
             {.group = "Comparison", .range = Range{0.1, 3600}});
  add_option(command, "--terraform", &flags->terraform, "CLOUD",
             "Slurm and, for Terraform, the machines of the site in this cloud",
             {.one_of = {"aws", "google"}});
  add_option(command, "--loopback-port", &flags->loopback_port, "PORT",
             "For Slurm alone: all nodes on this machine, a port for each from this one on",
             {.group = "Tests", .range = Range{1024, 65535}});
  return [flags, talk = context.talk] { return run_compile(*flags, *talk); };
}

std::function<int()> set_up_cluster_schema(Command& command, const Context& context) {
  auto markdown = std::make_shared<bool>(false);
  add_flag(command, "--markdown", markdown.get(), "Print the tables of docs/formats/site.md");
  return [markdown, talk = context.talk] {
    const std::string text =
        *markdown ? cluster::site_reference() : cluster::site_schema().dump(2) + "\n";
    if (talk->json) {
      print_json(json::parse(cluster::site_schema().dump()));
    } else {
      fmt::print("{}", text);
    }
    return kOk;
  };
}

}  // namespace stretto::cli
