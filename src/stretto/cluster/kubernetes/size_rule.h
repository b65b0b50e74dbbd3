// The rule that a job's number of chips names its queue, as Kubernetes checks it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stretto/cluster/site.h"

namespace stretto::cluster {

// A LocalQueue: where jobs of a queue and of the sizes of a group go.
struct LocalQueueName {
  std::string name;  // "normal-multi"
  const Queue* queue = nullptr;
  const Group* group = nullptr;  // null: the reserve, for any size
};
std::vector<LocalQueueName> local_queues_of(const Site& site);

// A ValidatingAdmissionPolicy and its binding: Jobs and JobSets whose queue is for other sizes are
// refused when they are created, with the reason.
std::string size_rule(const Site& site);

// For a shell: in single quotes if need be.
std::string shell_word(std::string_view text);

}  // namespace stretto::cluster
