// The order of a ring: hosts one after the other, so that each card is crossed once each way.
#pragma once

#include "stretto/comm/collective/builder.h"

namespace stretto::comm {

struct Ring {
  explicit Ring(const Builder& b, int first = -1) : order(b.hosts.order), n(b.n) {
    mine = b.hosts.position[b.me];
    if (first < 0) return;
    start_with(b, first);
    while (order[mine] != b.me) mine = (mine + 1) % n;
  }
  // The rank at a position, which may lie outside [0, n).
  int rank(int position) const { return order[((position % n) + n) % n]; }
  int next() const { return rank(mine + 1); }
  int previous() const { return rank(mine - 1); }

  std::vector<int> order;
  int n, mine = 0;

 private:
  // `first` leads, then the others of its host, then the other hosts.
  void start_with(const Builder& b, int first) {
    order = {first};
    for (int i = 0; i < b.hosts.count(); ++i)
      for (const int rank : b.hosts.members[(b.hosts.host[first] + i) % b.hosts.count()])
        if (rank != first) order.push_back(rank);
  }
};

}  // namespace stretto::comm
