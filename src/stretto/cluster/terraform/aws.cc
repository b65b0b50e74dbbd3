// The site on AWS: a network of its own, a data disk, the controller and the nodes.
#include "stretto/cluster/terraform/parts.h"

namespace stretto::cluster {
namespace {

// User data may have 16 KiB, so it is compressed; cloud-init knows that by itself.
constexpr std::string_view kAwsController =
    "${base64gzip(\"#cloud-config\\n${jsonencode(local.controller)}\")}";
constexpr std::string_view kAwsNode =
    "${base64gzip(\"#cloud-config\\n${jsonencode(merge(local.node, {hostname = each.key, "
    "write_files = [for file in local.node.write_files : merge(file, {content = "
    "replace(file.content, \"@NODE@\", each.key)})]}))}\")}";

TerraformJson tags(std::string_view name) {
  return "${merge(local.tags, {Name = \"" + std::string(name) + "\"})}";
}

TerraformJson machine(std::string_view image, std::string_view type, std::string_view address,
                      std::string_view data, const TerraformJson& tagged) {
  return {
      {"ami", image},
      {"instance_type", type},
      {"subnet_id", "${aws_subnet.site.id}"},
      {"private_ip", address},
      {"associate_public_ip_address", true},
      {"vpc_security_group_ids", {"${aws_security_group.site.id}"}},
      {"user_data_base64", data},
      {"user_data_replace_on_change", true},
      {"metadata_options", {{"http_tokens", "required"}, {"http_put_response_hop_limit", 1}}},
      {"root_block_device",
       {{"volume_size", "${var.disk_gb}"}, {"volume_type", "gp3"}, {"encrypted", true}}},
      {"tags", tagged},
      // A newer image must not replace machines at the next apply.
      {"lifecycle", {{"ignore_changes", {"ami"}}}},
      {"depends_on", {"aws_route_table_association.site", "aws_route.out", "terraform_data.cost"}}};
}

TerraformJson rule(std::string_view what, int first, int last, std::string_view protocol,
                   const TerraformJson& from, bool self) {
  return {{"description", what},
          {"from_port", first},
          {"to_port", last},
          {"protocol", protocol},
          {"cidr_blocks", from},
          {"ipv6_cidr_blocks", TerraformJson::array()},
          {"self", self},
          {"prefix_list_ids", TerraformJson::array()},
          {"security_groups", TerraformJson::array()}};
}

}  // namespace

CloudParts aws_parts(const Site& site) {
  const std::string name = terraform_text(site.name);
  CloudParts parts{.name = "aws",
                   .disk =
                       "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_"
                       "${replace(aws_ebs_volume.shared.id, \"-\", \"\")}",
                   .controller = "m6i.large",
                   .tag = name};
  parts.required_provider = {{"source", "hashicorp/aws"}, {"version", ">= 5.0"}};
  parts.provider = {{"region", "${var.region}"}};
  parts.variables["region"] = terraform_variable("string", "AWS region");
  parts.variables["region"]["default"] = "us-east-1";
  parts.variables["zone"] = terraform_variable("string", "Availability zone of all machines");
  parts.variables["zone"]["default"] = "us-east-1a";
  const bool asks = has_chips(site);
  parts.variables["image"] = terraform_variable(
      "string", asks ? "AMI of all machines: Debian or Ubuntu, with the driver of the nodes' chips"
                     : "AMI of all machines: Debian or Ubuntu; by default Debian 12");
  if (!asks) {
    parts.variables["image"]["default"] = nullptr;
    parts.data["aws_ami"]["debian"] = {
        {"most_recent", true},
        {"owners", {"136693071363"}},  // Debian's own account
        {"filter", {{{"name", "name"}, {"values", {"debian-12-amd64-*"}}}}}};
  }
  const std::string_view image =
      asks ? "${var.image}" : "${coalesce(var.image, data.aws_ami.debian.id)}";
  TerraformJson& all = parts.resources;
  all["aws_vpc"]["site"] = {
      {"cidr_block", "${var.subnet}"}, {"enable_dns_support", true}, {"tags", tags(name)}};
  all["aws_internet_gateway"]["site"] = {{"vpc_id", "${aws_vpc.site.id}"}, {"tags", tags(name)}};
  all["aws_subnet"]["site"] = {{"vpc_id", "${aws_vpc.site.id}"},
                               {"cidr_block", "${var.subnet}"},
                               {"availability_zone", "${var.zone}"},
                               {"tags", tags(name)}};
  all["aws_route_table"]["site"] = {{"vpc_id", "${aws_vpc.site.id}"}, {"tags", tags(name)}};
  all["aws_route"]["out"] = {{"route_table_id", "${aws_route_table.site.id}"},
                             {"destination_cidr_block", "0.0.0.0/0"},
                             {"gateway_id", "${aws_internet_gateway.site.id}"}};
  all["aws_route_table_association"]["site"] = {{"subnet_id", "${aws_subnet.site.id}"},
                                                {"route_table_id", "${aws_route_table.site.id}"}};
  const TerraformJson none = TerraformJson::array();
  all["aws_security_group"]["site"] = {
      {"name", name},
      {"description", "Machines of the Slurm site talk to each other"},
      {"vpc_id", "${aws_vpc.site.id}"},
      {"ingress", TerraformJson::array({rule("each other", 0, 0, "-1", none, true)})},
      {"egress", {rule("packages", 0, 0, "-1", {"0.0.0.0/0"}, false)}},
      {"tags", tags(name)}};
  all["aws_security_group"]["login"] = {
      {"name", name + "-login"},
      {"description", "ssh comes in at the controller of the Slurm site"},
      {"vpc_id", "${aws_vpc.site.id}"},
      {"ingress", TerraformJson::array({rule("ssh", 22, 22, "tcp", "${var.allow_from}", false)})},
      {"tags", tags(name + "-login")}};
  all["aws_ebs_volume"]["shared"] = {{"availability_zone", "${var.zone}"},
                                     {"size", "${var.shared_gb}"},
                                     {"type", "gp3"},
                                     {"encrypted", true},
                                     {"tags", tags(name + "-shared")},
                                     {"depends_on", {"terraform_data.cost"}}};
  all["aws_volume_attachment"]["shared"] = {{"device_name", "/dev/sdf"},
                                            {"volume_id", "${aws_ebs_volume.shared.id}"},
                                            {"instance_id", "${aws_instance.controller.id}"},
                                            {"stop_instance_before_detaching", true}};
  all["aws_instance"]["controller"] =
      machine(image, parts.controller, "${local.controller_address}", kAwsController,
              tags(name + "-controller"));
  all["aws_instance"]["controller"]["vpc_security_group_ids"].push_back(
      "${aws_security_group.login.id}");
  all["aws_instance"]["node"] =
      machine(image, "${each.value.type}", "${cidrhost(var.subnet, each.value.host)}", kAwsNode,
              tags("${each.value.machine}"));
  all["aws_instance"]["node"]["for_each"] = "${local.nodes}";
  parts.outputs["controller"] = {
      {"description", "Where to log in, and what --host of `stretto cluster run` takes"},
      {"value", "${var.user}@${aws_instance.controller.public_ip}"}};
  return parts;
}

}  // namespace stretto::cluster
