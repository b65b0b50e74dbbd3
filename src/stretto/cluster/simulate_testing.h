// Sites and traces for the tests of the simulator, and a slow simulator to compare with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stretto/cluster/simulate.h"

namespace stretto::cluster {

// Nodes of one kind, "n0" on, in one group "all", with one queue "normal"; preemption is off.
Site plain_site(int nodes, int chips);

// The first `single` of the nodes for jobs of one chip, the others for larger ones. With `spill`
// they may use each other's.
Site split_site(int nodes, int chips, int single, bool spill);

// The last `reserve` nodes become a reserve for a new queue, "urgent", which preempts if preemption
// is on.
void add_urgent(Site& site, int reserve, bool lend, Preemption preemption);

// The GPU nodes of openb, from its list: lines "name,cpu_milli,memory_mib,gpu,model".
Site openb_site(std::string_view csv);

struct TestJob {
  double submit_s, duration_s;
  int chips;
  std::string queue;
  std::string user = "";
};
Trace make_trace(const std::vector<TestJob>& jobs);

// The same as simulate() with departures and keep_times, by scanning everything at every event.
std::vector<JobTimes> simulate_slowly(const Site& site, const Trace& trace,
                                      const SimulateOptions& options);

}  // namespace stretto::cluster
