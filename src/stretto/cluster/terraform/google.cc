// The site on Google Cloud: a network of its own, a data disk, the controller and the nodes.
#include "stretto/cluster/terraform/parts.h"

namespace stretto::cluster {
namespace {

constexpr std::string_view kGoogleController = "#cloud-config\n${jsonencode(local.controller)}";
constexpr std::string_view kGoogleNode =
    "#cloud-config\n${jsonencode(merge(local.node, {hostname = each.key, write_files = [for file "
    "in "
    "local.node.write_files : merge(file, {content = replace(file.content, \"@NODE@\", "
    "each.key)})]}))}";

TerraformJson machine(std::string_view name, std::string_view type, std::string_view address,
                      std::string_view data) {
  return {{"name", name},
          {"machine_type", type},
          {"zone", "${var.zone}"},
          {"labels", "${local.tags}"},
          {"metadata", {{"user-data", data}, {"block-project-ssh-keys", "true"}}},
          {"boot_disk",
           {{"initialize_params", {{"image", "${var.image}"}, {"size", "${var.disk_gb}"}}}}},
          {"network_interface",
           {{"subnetwork", "${google_compute_subnetwork.site.id}"}, {"network_ip", address}}},
          {"depends_on", {"google_compute_router_nat.site", "terraform_data.cost"}}};
}

}  // namespace

CloudParts google_parts(const Site& site) {
  const std::string name = machine_name(site, "net", CloudProvider::kGoogle);
  const std::string controller = machine_name(site, "controller", CloudProvider::kGoogle);
  CloudParts parts{.name = "google",
                   .disk = "/dev/disk/by-id/google-shared",
                   .controller = "n2-standard-2",
                   .tag = name.substr(0, name.size() - std::string_view("-net").size())};
  parts.required_provider = {{"source", "hashicorp/google"}, {"version", ">= 5.0"}};
  parts.provider = {
      {"project", "${var.project}"}, {"region", "${var.region}"}, {"zone", "${var.zone}"}};
  parts.variables["project"] = terraform_variable("string", "Google Cloud project");
  parts.variables["region"] = terraform_variable("string", "Region");
  parts.variables["region"]["default"] = "us-central1";
  parts.variables["zone"] = terraform_variable("string", "Zone of all machines");
  parts.variables["zone"]["default"] = "us-central1-a";
  const bool asks = has_chips(site);
  parts.variables["image"] = terraform_variable(
      "string",
      asks
          ? "Image of all machines: Debian or Ubuntu with cloud-init, and the driver of the nodes' "
            "chips"
          : "Image of all machines: Debian or Ubuntu with cloud-init; by default Ubuntu 24.04");
  if (!asks) parts.variables["image"]["default"] = "ubuntu-os-cloud/ubuntu-2404-lts-amd64";
  TerraformJson& all = parts.resources;
  all["google_compute_network"]["site"] = {{"name", name}, {"auto_create_subnetworks", false}};
  all["google_compute_subnetwork"]["site"] = {{"name", name},
                                              {"network", "${google_compute_network.site.id}"},
                                              {"ip_cidr_range", "${var.subnet}"},
                                              {"region", "${var.region}"}};
  all["google_compute_router"]["site"] = {{"name", name},
                                          {"network", "${google_compute_network.site.id}"},
                                          {"region", "${var.region}"}};
  all["google_compute_router_nat"]["site"] = {
      {"name", name},
      {"router", "${google_compute_router.site.name}"},
      {"region", "${var.region}"},
      {"nat_ip_allocate_option", "AUTO_ONLY"},
      {"source_subnetwork_ip_ranges_to_nat", "ALL_SUBNETWORKS_ALL_IP_RANGES"}};
  all["google_compute_firewall"]["inside"] = {{"name", name + "-inside"},
                                              {"network", "${google_compute_network.site.id}"},
                                              {"source_ranges", {"${var.subnet}"}},
                                              {"allow", {{{"protocol", "all"}}}}};
  all["google_compute_firewall"]["ssh"] = {{"name", name + "-ssh"},
                                           {"network", "${google_compute_network.site.id}"},
                                           {"source_ranges", "${var.allow_from}"},
                                           {"allow", {{{"protocol", "tcp"}, {"ports", {"22"}}}}}};
  all["google_compute_disk"]["shared"] = {
      {"name", machine_name(site, "shared", CloudProvider::kGoogle)},
      {"zone", "${var.zone}"},
      {"size", "${var.shared_gb}"},
      {"type", "pd-balanced"},
      {"labels", "${local.tags}"},
      {"depends_on", {"terraform_data.cost"}}};
  // Metadata may change in place, but cloud-init reads it once.
  all["terraform_data"]["controller"] = {{"input", "${sha256(jsonencode(local.controller))}"}};
  all["terraform_data"]["node"] = {{"input", "${sha256(jsonencode(local.node))}"}};
  TerraformJson head =
      machine(controller, parts.controller, "${local.controller_address}", kGoogleController);
  head["attached_disk"] = {{"source", "${google_compute_disk.shared.id}"},
                           {"device_name", "shared"}};
  head["network_interface"]["access_config"] = TerraformJson::object();  // a public address
  head["lifecycle"] = {{"ignore_changes", {"boot_disk"}},
                       {"replace_triggered_by", {"terraform_data.controller"}}};
  all["google_compute_instance"]["controller"] = std::move(head);
  TerraformJson node = machine("${each.value.machine}", "${each.value.type}",
                               "${cidrhost(var.subnet, each.value.host)}", kGoogleNode);
  node["for_each"] = "${local.nodes}";
  node["dynamic"]["guest_accelerator"] = {
      {"for_each", "${each.value.accelerator == \"\" ? [] : [each.value.accelerator]}"},
      {"content", {{"type", "${guest_accelerator.value}"}, {"count", "${each.value.chips}"}}}};
  // Machines with chips cannot move to other hosts.
  node["scheduling"] = {
      {"on_host_maintenance", "${each.value.chips > 0 ? \"TERMINATE\" : \"MIGRATE\"}"}};
  node["lifecycle"] = {{"ignore_changes", {"boot_disk"}},
                       {"replace_triggered_by", {"terraform_data.node"}}};
  all["google_compute_instance"]["node"] = std::move(node);
  parts.outputs["controller"] = {
      {"description", "Where to log in, and what --host of `stretto cluster run` takes"},
      {"value",
       "${var.user}@${google_compute_instance.controller.network_interface[0].access_config[0]"
       ".nat_ip}"}};
  return parts;
}

}  // namespace stretto::cluster
