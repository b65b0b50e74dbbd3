// What the jobs of a trace ask for, and where the site and the policy let them run. Jobs that ask
// for the same are one shape: if one of them does not fit, none does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/cluster/policy/policy.h"
#include "stretto/cluster/simulate/nodes.h"
#include "stretto/cluster/site.h"
#include "stretto/cluster/trace/trace.h"

namespace stretto::cluster {

// Nodes over which a job may be spread: all of one kind, with equally many chips.
struct Pool {
  int chips = 0;             // of one node
  std::vector<int> classes;  // the preferred ones first
};

struct Shape {
  Need need;  // of the whole job
  int kinds = 0, queue = 0, priority = 0, model = 0;
  int user = 0;                          // 0 where users do not matter
  std::vector<std::vector<int>> stages;  // classes for a job on one node, the preferred ones first
  std::vector<Pool> pools;               // where it needs several nodes; then `stages` is empty
  uint64_t regions = 0;                  // in which it may run
  uint64_t owns = 0;                     // in which guests make room for it
  bool preempts = false;                 // it takes chips of lower priorities
  bool possible() const { return !stages.empty() || !pools.empty(); }
};

// A site as the engine sees it.
struct SiteMap {
  std::vector<NodeClass> classes;
  std::vector<std::string> kinds;    // names of the chips
  std::vector<uint64_t> kind_masks;  // by kind set of the trace: bits of kinds that will do
  int reserve_region = -1;           // behind the groups
  bool preemption = false, cancels = false;
  bool counts_users = false;       // the site has shares or limits of users
  std::vector<int> most_of_users;  // chips by user of the trace; 0: no limit
};

// Throws InvalidArgument for a site that cannot be simulated: no chips, or more than 63 groups.
SiteMap map_site(const Site& site, const Policy& policy, const Trace& trace);

// The queue of the site for a queue of the trace: that of its name, else the default.
std::vector<int> map_queues(const Site& site, const Trace& trace);

// Whether the job is told to take longer than its queue allows. Slurm counts whole minutes.
bool is_too_long(const Site& site, const Queue& queue, const Job& job);

// Where a job with this need may run. `reason` says why nowhere.
Shape make_shape(const Site& site, const SiteMap& map, const Policy& policy, const Job& job,
                 int queue, std::string& reason);

// The parts of a job over several nodes: so many full nodes of the pool, and the rest.
struct Parts {
  int full = 0;
  Need each, rest;  // rest.chips 0: none
};
Parts parts_of(const Need& need, int chips_of_node);

}  // namespace stretto::cluster
