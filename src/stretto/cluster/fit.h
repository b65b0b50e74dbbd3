// The sizes of the groups and of the reserve that suit a trace, found with few simulations.
#pragma once

#include <string>
#include <vector>

#include "stretto/cluster/simulate.h"

namespace stretto::cluster {

struct FitSetting {
  std::vector<int> group_nodes;  // by group
  int reserve_nodes = 0;
  bool soft = false;  // jobs may run in other groups while theirs is full; at a site that preempts,
                      // only in those of larger jobs, or jobs would preempt each other for ever
  bool operator==(const FitSetting&) const = default;
};

struct FitTrial {
  FitSetting setting;
  double score_s = 0;  // the mean of the mean waits of the classes of jobs; lower is better. Of a
                       // simulation that was given up, what it would have come to, as far as can
                       // be told
  double part = 1;     // of the events that were simulated; less than 1: given up
};

struct Fit {
  std::vector<std::string> groups;  // their names
  int64_t grid_size = 0;            // how many settings there are, with walls and without
  FitSetting before, best;
  std::vector<FitTrial> tried;  // in this order; the first is the site as it is
  double runs = 0;              // what they cost, in whole simulations: the sum of the parts
  Simulation simulation_before, simulation_best;
  Site site;                         // with the best setting
  std::vector<std::string> changes;  // sentences: what would change, and what it would bring
};

// The site with other sizes. A site with one group gets two, "single" for jobs of one chip and
// "multi" for larger ones. The order of the nodes stays: the groups take them one after the other,
// and the reserve the last ones. A soft setting also says into which groups each spills.
Site resized(const Site& site, const FitSetting& setting);

// The sizes that a site has.
FitSetting setting_of(const Site& site);

// How good a simulation is.
double fit_score(const Simulation& simulation);

// Searches at the cost of at most `most_runs` simulations; 0: a tenth of the grid, and at least 8.
// A simulation that is given up costs the part of its events. The policy of `options` may not say
// how groups are used: that is what is searched.
Fit fit_site(const Site& site, const Trace& trace, const SimulateOptions& options,
             int most_runs = 0);

}  // namespace stretto::cluster
