// Writes Terraform's configuration of a Slurm site in a cloud: a controller, which is also the file
// server and the login node, and the site's nodes, which join by themselves.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "stretto/cluster/output.h"
#include "stretto/cluster/site.h"

namespace stretto::cluster {

enum class CloudProvider : uint8_t { kAws, kGoogle };

// "aws" or "google"; throws InvalidArgument for others.
CloudProvider cloud_provider(std::string_view name);

// A type of machine. Types are chosen by the chips, cores and memory that a node has.
struct Instance {
  CloudProvider provider;
  std::string_view type;
  std::string_view chip;  // empty: none
  int chips = 0;
  int cores = 0;  // as the system counts them
  int memory_gb = 0;
  std::string_view accelerator;  // Google's name of chips that are attached to a machine; empty:
                                 // the type has its chips, or none
};

struct InstanceChoice {
  std::string type, accelerator;
};

// The type that [[nodes]] names, else the smallest that has its chips, and its cores and memory at
// least. Throws Unsupported with the line and what to do if there is none.
InstanceChoice instance_of(const Site& site, const NodeSet& set, CloudProvider provider);

// terraform/main.tf.json, and the files beside it that it reads; it also reads those of
// write_slurm(), which lie in the same folder. Throws Unsupported for what has no place in a cloud.
Files write_terraform(const Site& site, CloudProvider provider);

}  // namespace stretto::cluster
