#include "stretto/cluster/policy/policy.h"

#include <fmt/format.h>

#include <vector>

#include "stretto/base/error.h"
#include "stretto/cluster/policy/parts.h"

namespace stretto::cluster {
namespace {

constexpr PolicyPart kParts[] = {
    {"easy", "order", "by submission; small jobs start early where they delay nobody", use_easy},
    {"fifo", "order", "by submission; nobody overtakes", use_fifo},
    {"greedy", "order", "by submission; every job that fits starts", use_greedy},
    {"shortest", "order", "by predicted time, shortest first, with backfilling", use_shortest},
    {"best-fit", "place", "the node on which least is left over", use_best_fit},
    {"spread", "place", "the node on which most is free", use_spread},
    {"random", "place", "any node on which the job fits", use_random},
    {"fgd", "place", "the node on which least becomes useless for other jobs (FGD)", use_fgd},
    {"throughput", "place", "the chip kind on which the job runs fastest", use_throughput},
    {"no-groups", "groups", "as if the site had no groups", use_no_groups},
    {"hard-groups", "groups", "jobs run in the group of their size only", use_hard_groups},
    {"soft-groups", "groups", "in the group of their size, and in others while that is full",
     use_soft_groups},
    {"no-reserve", "reserve", "as if the reserve were plain nodes", use_no_reserve},
    {"held-reserve", "reserve", "the reserve stays idle until its queues need it",
     use_held_reserve},
    {"lent-reserve", "reserve", "the reserve is lent while it is idle", use_lent_reserve},
    {"preempt", "preemption", "queues that preempt, and owners of groups, preempt", use_preempt},
    {"no-preempt", "preemption", "nobody is preempted", use_no_preempt},
};

std::string part_names() {
  std::string names;
  for (const PolicyPart& part : kParts) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", part.name);
  }
  return names;
}

const PolicyPart& part_named(std::string_view name) {
  for (const PolicyPart& part : kParts) {
    if (part.name == name) return part;
  }
  throw_invalid("policy '{}': there are {}; join several with +", name, part_names());
}

}  // namespace

std::span<const PolicyPart> policy_parts() { return kParts; }

Policy make_policy(std::string_view parts) {
  Policy policy;
  use_easy(policy);
  use_best_fit(policy);
  policy.name = parts.empty() ? "site" : std::string(parts);
  if (parts == "site") parts = "";
  if (parts.ends_with('+')) throw_invalid("policy '{}': a part is missing behind the +", parts);
  std::vector<const PolicyPart*> used;
  while (!parts.empty()) {
    const size_t end = parts.find('+');
    const PolicyPart& part = part_named(parts.substr(0, end));
    parts.remove_prefix(end == std::string_view::npos ? parts.size() : end + 1);
    for (const PolicyPart* other : used) {
      if (other->slot == part.slot) {
        throw_invalid("policy '{}': {} and {} both say the {}; leave one out", policy.name,
                      other->name, part.name, part.slot);
      }
    }
    used.push_back(&part);
    part.apply(policy);
  }
  return policy;
}

}  // namespace stretto::cluster
