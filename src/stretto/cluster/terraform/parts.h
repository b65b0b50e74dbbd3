// What the files of this folder share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "stretto/cluster/terraform/terraform.h"

namespace stretto::cluster {

using TerraformJson = nlohmann::ordered_json;

struct CloudNode {
  std::string name;
  std::string machine;  // its name in the cloud
  std::string price;    // its key in var.hourly_prices
  InstanceChoice instance;
  int chips = 0;
  int host = 0;  // of its address in the subnet
};

// What differs between clouds. Texts are Terraform's.
struct CloudParts {
  std::string_view name;
  TerraformJson provider, required_provider, variables, data, resources, outputs;
  std::string_view disk;        // the path of the data disk on the controller
  std::string_view controller;  // its type
  std::string tag;              // the site's name, as the cloud takes it
};

constexpr int kControllerHost = 10;  // clouds keep the first addresses for themselves

CloudParts aws_parts(const Site& site);
CloudParts google_parts(const Site& site);

// Nodes with chips need an image with their driver, which the default images do not have.
bool has_chips(const Site& site);
// A text for Terraform that means itself.
std::string terraform_text(std::string_view text);
// "lab-m0" in the form that Google takes; AWS shows it as it is. Throws Unsupported.
std::string machine_name(const Site& site, std::string_view node, CloudProvider provider);
// {"type": ..., "description": ...}
TerraformJson terraform_variable(std::string_view type, std::string_view description);

}  // namespace stretto::cluster
