// Which ranks share a host, and the order in which everything is summed (see schedule.h).
#pragma once

#include <span>
#include <vector>

namespace stretto::comm {

struct Hosts {
  std::vector<std::vector<int>> members;  // by host, ordered by lowest rank; ranks ascending
  std::vector<int> host;                  // of each rank: index into members
  std::vector<int> index;                 // of each rank: in its host's members
  std::vector<int> order;                 // all ranks, host after host: the order of summation

  int count() const { return static_cast<int>(members.size()); }
  int size(int h) const { return static_cast<int>(members[h].size()); }
  bool equal_sizes() const;
  int largest() const;
};

Hosts find_hosts(std::span<const int> labels);  // labels[rank], equal on one host

}  // namespace stretto::comm
