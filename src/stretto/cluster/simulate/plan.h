// The plans of EASY backfilling: when the first job that does not fit will, and what it takes then.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/cluster/simulate/nodes.h"

namespace stretto::cluster {

struct Plan {
  int job = -1;
  int64_t start_ms = 0;
  uint64_t regions = 0;  // of the job
  // Nodes of the plan, with what will be left on them for jobs that still run then. Parts of chips
  // count as whole ones.
  struct Left {
    int node, chips, cores_milli;
    int64_t memory_mb;
  };
  std::vector<Left> left;
};

class Plans {
 public:
  void clear() { used_ = 0; }
  void add(Plan plan);
  size_t size() const { return used_; }
  const Plan& operator[](size_t i) const { return plans_[i]; }
  uint64_t regions() const;

  // Whether a job that ends then, as predicted, may take the need on the node.
  bool allows(const Nodes& nodes, int node, const Need& need, int64_t end_ms) const;
  // It takes it.
  void take(int node, const Need& need, int64_t end_ms);

 private:
  std::vector<Plan> plans_;
  size_t used_ = 0;
};

}  // namespace stretto::cluster
