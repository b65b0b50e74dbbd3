// The hosts and racks of a job's ranks, by the names that the ranks have published.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "stretto/comm/collective/hosts.h"

namespace stretto::comm {

struct JobHosts {
  std::vector<std::vector<int>> ranks;  // of each host, hosts in order of their lowest rank
  std::vector<int> host;                // of each rank: its place in `ranks`
  std::vector<int> rack;                // of each rank: equal numbers for one rack

  // Of some ranks of the job, in this order.
  Placement placement(std::span<const int> of) const;
};

// The names are by rank. Throws InvalidArgument where ranks of one host are in different racks.
JobHosts find_job_hosts(const std::vector<std::string>& host_names,
                        const std::vector<std::string>& rack_names);

}  // namespace stretto::comm
