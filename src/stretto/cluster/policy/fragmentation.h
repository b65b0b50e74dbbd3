// How much of the free chips is of no use, as FGD counts it: for each kind of job of the trace, the
// free chips of a node on which it does not run are lost to it; the mean over the kinds, by how
// often they come, is the fragmentation of the node (Weng and others, ATC 2023).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/cluster/simulate/nodes.h"
#include "stretto/cluster/trace/trace.h"

namespace stretto::cluster {

// How good it is that the fragmentation of a node grows by so much, from 0 to 99: 50 if it stays,
// more if it shrinks. Small differences are none, as published.
int fgd_score(double growth_milli);

class Fragmentation {
 public:
  // From the most frequent kinds of jobs, 95 % of all. `kind_names`: of the chip kinds of nodes.
  Fragmentation(const Trace& trace, const std::vector<std::string>& kind_names);

  // Of a node with so much free: thousandths of chips.
  double amount(int kind, int cores_milli, std::span<const int16_t> chips) const;

  // How much a need adds to the fragmentation of the node, and the best chip for it. Remembered per
  // shape until the node changes; `shape` -1: not remembered.
  struct Growth {
    double amount = 0;
    int chip = -1;
  };
  Growth growth(const Nodes& nodes, int node, const Need& need, int shape);

 private:
  struct Typical {
    int chips, milli, cores_milli, kinds;
    double share;
  };
  struct Remembered {
    uint32_t changes = ~uint32_t{0};
    Growth growth;
  };

  Growth compute(const Nodes& nodes, int node, const Need& need) const;

  std::vector<Typical> typical_;
  std::vector<std::vector<bool>> allowed_;  // by kind set and kind
  std::vector<std::vector<Remembered>> remembered_;
};

}  // namespace stretto::cluster
