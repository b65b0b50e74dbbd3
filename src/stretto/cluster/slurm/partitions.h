// How a site's policy maps to Slurm's partitions (docs/design/cluster.md says why).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/cluster/site.h"

namespace stretto::cluster {

// Jobs of one queue and one group. A job of a size may have two: its home, and the spare one, in
// which it runs as long as the nodes' owners do not need them.
struct Partition {
  std::string name;  // "normal.single", "normal.single.spare"
  std::string queue, group;
  bool spare = false;
  bool is_default = false;
  std::vector<std::string> nodes;
  int tier = 1;              // jobs preempt those of lower tiers
  int factor = 0;            // who is first within a tier
  bool preemptible = false;  // somebody may take its jobs' chips
  int64_t longest_s = 0;     // 0: no limit
  int64_t default_s = 0;
  int64_t most_nodes = 0;  // 0: no limit
  int line = 0;            // of the queue, of a spare one of the group or the reserve
};

// Nodes of one line of slurm.conf: of one [[nodes]] and one group, or the reserve.
struct NodeLine {
  const NodeSet* set = nullptr;
  std::string group;                   // empty: the reserve
  std::vector<std::string> names;      // sorted as compact_names() does
  std::vector<std::string> addresses;  // of these; empty: not said
  int weight = 1;                      // Slurm takes nodes with low ones first
};

// Throws Unsupported for priorities that Slurm's tiers cannot express: a queue that preempts below
// one that does not.
std::vector<Partition> partitions_of(const Site& site);
std::vector<NodeLine> node_lines_of(const Site& site);

// "v100,multi,cann" of a line: by these, jobs may ask for a kind of chip, a group, a build or a
// rack.
std::string features_of(const NodeLine& line);
// "REQUEUE", "CANCEL" or "OFF", of a site with preemption.
std::string preempt_mode_of(const Site& site, const Partition& partition);

}  // namespace stretto::cluster
