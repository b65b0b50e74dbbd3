// The policies that the simulator knows. A policy is made of parts: the order in which waiting jobs
// are looked at, the node that a job gets, how groups and the reserve of the site are used, and
// whether jobs are preempted. "shortest+fgd+hard-groups" names parts; what is not named is as the
// site says, with backfilling and best fit.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "stretto/cluster/random.h"
#include "stretto/cluster/simulate/nodes.h"
#include "stretto/cluster/trace/trace.h"

namespace stretto::cluster {

class Fragmentation;
class Plans;

// What the order does when a job does not fit.
enum class Blocking : uint8_t {
  kStrict,    // no job behind it starts on nodes that it could use
  kBackfill,  // it gets a plan, and jobs behind it start where they do not delay the plan (EASY)
  kGreedy,    // every job that fits starts
};
enum class Grouping : uint8_t { kSite, kNone, kHard, kSoft };
enum class ReserveUse : uint8_t { kSite, kNone, kHeld, kLent };
enum class Preempting : uint8_t { kSite, kOff, kOn };

// What a placement may look at.
struct PlaceContext {
  const Nodes& nodes;
  Random& random;
  Fragmentation* fragmentation;  // of FGD; null with other placements
  const Plans* plans;            // null: the job may delay nobody
  int64_t job_end_ms;            // as predicted, where plans count
  int shape;                     // jobs with one number ask for the same
  bool only_chips;               // no job of the trace asks for cores, memory or parts of chips
  int model, model_chips;        // of the job
  const std::function<double(int kind, int model, int chips)>& rate;  // 0: not known

  // Whether the job may take this much of the node.
  bool allows(int node, const Need& need) const;
};

struct Policy {
  std::string name;
  int64_t (*key)(const Job& job) = nullptr;  // jobs with lower ones first
  Blocking blocking = Blocking::kBackfill;
  // The node for `need`, of the nodes of these classes; node -1 if it fits nowhere.
  Spot (*place)(PlaceContext& context, const Need& need, std::span<const int> classes) = nullptr;
  bool needs_fragmentation = false;
  Grouping grouping = Grouping::kSite;
  ReserveUse reserve = ReserveUse::kSite;
  Preempting preempting = Preempting::kSite;
};

// A part by its name. Parts of one slot exclude each other.
struct PolicyPart {
  std::string_view name, slot, summary;
  void (*apply)(Policy& policy);
};

std::span<const PolicyPart> policy_parts();

// Throws InvalidArgument for a part that does not exist, naming those that do, and for two of a
// slot. Empty, or "site": easy+best-fit on the site as it is.
Policy make_policy(std::string_view parts);

// Calls found(node) for each node of the classes on which the need fits and is allowed, in the
// order of the classes and their nodes.
template <typename Found>
void for_each_fit(const PlaceContext& context, const Need& need, std::span<const int> classes,
                  Found found) {
  for (const int c : classes) {
    const NodeClass& nodes = context.nodes.classes()[static_cast<size_t>(c)];
    for (int node = nodes.first; node < nodes.first + nodes.count; ++node) {
      if (context.nodes.fits(node, need) && context.allows(node, need)) found(node);
    }
  }
}

// The placements, also where something else needs a node.
Spot place_best_fit(PlaceContext& context, const Need& need, std::span<const int> classes);
Spot place_spread(PlaceContext& context, const Need& need, std::span<const int> classes);
Spot place_random(PlaceContext& context, const Need& need, std::span<const int> classes);
Spot place_fgd(PlaceContext& context, const Need& need, std::span<const int> classes);
Spot place_throughput(PlaceContext& context, const Need& need, std::span<const int> classes);

int64_t by_submission(const Job& job);
int64_t by_prediction(const Job& job);

}  // namespace stretto::cluster
