// A site file compared with what Slurm says it has. Nothing here runs or changes anything.
#pragma once

#include <string>
#include <vector>

#include "stretto/cluster/difference.h"
#include "stretto/cluster/site.h"

namespace stretto::cluster {

// What `scontrol show config` and `scontrol -a -o show partition`, `node` and `reservation` print.
struct SlurmText {
  std::string config, partitions, nodes, reservations;
};

// Settings, then nodes and partitions in the order of the site file, then what only Slurm has: a
// partition on the site's nodes, by which jobs would pass by its policy, and a reservation of them
// other than for maintenance. Nodes, features and gres that only Slurm has are no differences, for
// a site may have more of them. Throws FormatError for texts that scontrol did not print.
std::vector<Difference> slurm_differences(const Site& site, const SlurmText& live);

}  // namespace stretto::cluster
