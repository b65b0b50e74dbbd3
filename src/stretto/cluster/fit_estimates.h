// What the settings that a fit tried say about those that it did not.
#pragma once

#include <vector>

#include "stretto/cluster/fit.h"

namespace stretto::cluster {

class Estimates {
 public:
  // Of all settings with so many nodes: at most `most_reserve` of them in the reserve, and in each
  // group at least `least`.
  void list(int groups, int nodes, int most_reserve, int least);

  void learn(const FitTrial& trial);

  // Of the settings that were not tried, the one that is expected to be best. Null: all were, or
  // nothing is known of them.
  const FitSetting* most_promising() const;

 private:
  // The scores of the trials, each by the inverse cube of its distance.
  struct Estimate {
    FitSetting setting;
    double weights = 0, scores = 0, reserves = 0;
    bool tried = false;
  };
  // A trial against those with a smaller reserve: by how much its score and its reserve are larger.
  struct Step {
    FitTrial trial;
    double weights = 0, scores = 0, reserves = 0;
  };

  void list_groups(FitSetting& setting, size_t group, int nodes, int least);
  double cost_of_reserve() const;

  std::vector<Estimate> estimates_;
  std::vector<Step> steps_;
};

}  // namespace stretto::cluster
