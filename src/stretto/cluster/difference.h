// Where a scheduler has something else than the site file says.
#pragma once

#include <string>
#include <vector>

namespace stretto::cluster {

// What is expected where an element of a list is missing.
constexpr const char* kEntry = "an entry";

struct Difference {
  std::string what;      // "partition normal.single", "nodes m[0-3]", "slurm.conf"
  std::string key;       // "PriorityTier", "spec.cohortName"; empty: the whole of it
  std::string expected;  // by the site file; empty: nothing
  std::string found;     // in the scheduler; empty: nothing
  int line = 0;          // of the site file; 0: none in particular
};

}  // namespace stretto::cluster
