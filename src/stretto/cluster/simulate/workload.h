// The jobs of a simulation: those of a trace, inflated or thinned by drawing, and who is urgent.
#pragma once

#include <span>
#include <vector>

#include "stretto/cluster/random.h"
#include "stretto/cluster/simulate.h"

namespace stretto::cluster {

// Moved, not copied: `jobs` may point into `drawn`.
struct Workload {
  std::span<const Job> jobs;  // in the order in which they come: of the trace, or drawn
  std::vector<Job> drawn;
  std::vector<int16_t> queues;  // of the site, by job
};

// `total_chips`: of the site, which without departures says how many jobs there are.
Workload make_workload(const Site& site, const Trace& trace, const SimulateOptions& options,
                       int64_t total_chips, Random& random);

}  // namespace stretto::cluster
