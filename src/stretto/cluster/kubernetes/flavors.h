// Groups and chips as Kueue's flavors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "stretto/cluster/site.h"

namespace stretto::cluster {

// Nodes of one group, or the reserve, with one kind of chip.
struct Flavor {
  std::string name;   // "multi-v100"
  std::string group;  // empty: the reserve
  std::string chip;   // empty: no chips
  std::vector<std::string> nodes;
  bool racks = true;  // all its nodes are in a rack that has a name
  int line = 0;
  std::map<std::string, int64_t> capacity;  // "nvidia.com/gpu" -> 16, "cpu", "memory" in MiB
};

constexpr const char* kReserveName = "reserve";  // where groups have their names

std::vector<Flavor> flavors_of(const Site& site);

}  // namespace stretto::cluster
