#include "stretto/cluster/simulate/plan.h"

namespace stretto::cluster {

void Plans::add(Plan plan) {
  plans_.resize(used_);
  plans_.push_back(std::move(plan));
  ++used_;
}

uint64_t Plans::regions() const {
  uint64_t regions = 0;
  for (size_t i = 0; i < used_; ++i) regions |= plans_[i].regions;
  return regions;
}

bool Plans::allows(const Nodes& nodes, int node, const Need& need, int64_t end_ms) const {
  for (size_t i = 0; i < used_; ++i) {
    if (end_ms <= plans_[i].start_ms) continue;
    for (const Plan::Left& left : plans_[i].left) {
      if (left.node != node) continue;
      if (need.chips > left.chips || need.cores_milli > left.cores_milli) return false;
      if (need.memory_mb > left.memory_mb && nodes.class_of(node).memory_mb != 0) return false;
    }
  }
  return true;
}

void Plans::take(int node, const Need& need, int64_t end_ms) {
  for (size_t i = 0; i < used_; ++i) {
    if (end_ms <= plans_[i].start_ms) continue;
    for (Plan::Left& left : plans_[i].left) {
      if (left.node != node) continue;
      left.chips -= need.chips;
      left.cores_milli -= need.cores_milli;
      left.memory_mb -= need.memory_mb;
    }
  }
}

}  // namespace stretto::cluster
