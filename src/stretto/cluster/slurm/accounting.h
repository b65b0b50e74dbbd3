// Shares and limits of users and queues, which live in Slurm's accounting database (slurmdbd).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "stretto/cluster/output.h"
#include "stretto/cluster/site.h"

namespace stretto::cluster {

// Whether users or queues have shares or limits.
bool needs_accounting(const Site& site);

// accounting.conf and accounting.sh; none where nobody has shares or limits.
Files accounting_files(const Site& site);

// What accounting.conf sets for all of slurm.conf, and for every partition: what a job is billed
// for, which is chips. Empty where nobody has shares or limits.
std::vector<std::pair<std::string, std::string>> accounting_settings(const Site& site);
std::string billing_weights(const Site& site);

// PriorityWeightPartition: so large that no user's share makes up for a queue's priority.
int64_t partition_weight(const Site& site);

// A user's share as Slurm takes it, in whole hundredths.
int64_t fairshare_of(const User& user);

}  // namespace stretto::cluster
