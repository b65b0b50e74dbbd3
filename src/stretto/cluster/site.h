// A site: its nodes, and the policy by which jobs share them. One TOML file describes both
// (docs/formats/site.md); the writers for Slurm and Kubernetes and the simulator all read this.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace stretto::cluster {

// Lines are those of the site file, from 1; what is written from an entry names its line.

// [chips.KIND]: a kind of accelerator. Every field has a default, so most sites need no such table.
struct ChipKind {
  std::string name;      // "v100"
  std::string gres;      // its name and type for Slurm: "gpu:v100"
  std::string devices;   // the device files of one node for gres.conf: "/dev/nvidia[0-7]"; may be
                         // empty: Slurm then counts the chips, but shows jobs no device
  std::string resource;  // its name for Kubernetes: "nvidia.com/gpu"
  int line = 0;
};

// [[nodes]]: nodes that are alike.
struct NodeSet {
  std::vector<std::string> names;  // "m[0-3]" in the file, expanded here
  std::string chip;                // a ChipKind; empty: nodes without chips
  int chips = 0;                   // of one node
  int cores = 1;
  int64_t memory_mb = 0;  // memory_gb in the file; 0: not said
  std::string build;      // which build of a program runs here; the chip's name if not said
  std::string rack;       // for placement close to each other; may be empty
  std::string address;    // how its names resolve where they do not; may be empty
  std::string instance;   // its type in a cloud; may be empty
  int line = 0;
};

// [[groups]]: nodes that serve jobs of certain sizes. The groups and the reserve share no node.
struct Group {
  std::string name;
  std::vector<std::string> nodes;
  int least_chips = 0, most_chips = 0;  // of a job, all nodes together; chips = "1", "2-7" or "8+"
                                        // in the file; most_chips 0: no limit
  bool chipless = false;  // its nodes have no chips: it takes jobs without chips, and no others
  std::vector<std::string> spill;  // groups in which its jobs may run while they are free there.
                                   // The owners of those groups preempt them, if preemption is on
  int line = 0;
};

// [reserve]: nodes held for some queues.
struct Reserve {
  std::vector<std::string> nodes;
  std::vector<std::string> queues;  // whose jobs look here first
  bool lend = true;  // while idle, to jobs of other queues, which are preempted. Not with
                     // preemption off
  int line = 0;      // 0: the site has no reserve
};

enum class Preemption : uint8_t { kOff, kRequeue, kCancel };

// [preemption]
struct PreemptionRule {
  Preemption mode = Preemption::kRequeue;
  int grace_s = 60;  // between SIGTERM, on which jobs save a checkpoint, and the end
  int line = 0;
};

// [[queues]]: who waits before whom. A site that names none has one queue, "normal".
struct Queue {
  std::string name;
  int priority = 10;                // higher ones start first
  bool preempts = false;            // takes chips from jobs of queues with lower priority
  bool is_default = false;          // of jobs that name none; the first one if none says so
  std::vector<std::string> users;   // who may use it; empty: all
  std::vector<std::string> groups;  // where its jobs may run; empty: all groups
  int most_chips = 0;               // of all its running jobs together; 0: no limit
  int64_t longest_s = 0;            // of a job; 0: that of [limits]
  int line = 0;
};

// [[users]]
struct User {
  std::string name;
  double share = 1;    // of the site, against those of the others
  int most_chips = 0;  // of all running jobs together; 0: no limit
  int line = 0;
};

// [limits]: of every job.
struct Limits {
  int64_t longest_s = 0;     // max_time = "2-00:00" or "90m" in the file; 0: none
  int64_t default_s = 3600;  // default_time
  int most_chips = 0;        // 0: all there are
  int most_nodes = 0;        // 0: all there are
  int line = 0;
};

// [kubernetes]
struct KubernetesRules {
  std::string pod_security;  // "privileged", "baseline" or "restricted"; empty: not said
  int line = 0;
};

struct Site {
  std::string name;
  std::string file;                       // where it was read, for comments and errors
  std::map<std::string, ChipKind> chips;  // also of kinds that only [[nodes]] name
  std::vector<NodeSet> nodes;
  std::vector<Group> groups;  // at least one: a site that names none has "all"
  Reserve reserve;
  PreemptionRule preemption;
  std::vector<Queue> queues;  // at least one; by falling priority
  std::vector<User> users;
  Limits limits;
  KubernetesRules kubernetes;
};

// Reads and checks a site. Throws FormatError with the file, the line, what is wrong and how to
// correct it, the nearest name for a misspelt one: for what is no TOML, unknown keys, values out of
// range, names that do not exist or exist twice, and contradictions (a group without nodes or
// without a job that fits on its nodes, a node in two groups, sizes that two groups claim, more
// reserve than nodes, groups that spill into each other with preemption, a queue that preempts
// while preemption is off).
Site parse_site(std::string_view text, const std::string& file);
Site read_site(const std::string& path);  // throws FormatError also for a file that cannot be read

// "m[0-3,7],r0" -> m0 m1 m2 m3 m7 r0, and back in Slurm's form; numbers keep their zeros
// ("n[08-11]"). Throws InvalidArgument for what is no such list, and for more than 1,000,000 names.
std::vector<std::string> expand_names(std::string_view list);
std::string compact_names(const std::vector<std::string>& names);

// The group for a job of `chips`; null: none takes jobs of this size.
const Group* group_of(const Site& site, int chips);
const NodeSet& nodes_of(const Site& site, std::string_view node);  // the node exists

}  // namespace stretto::cluster
