// What the hierarchical all-reduces do inside a host: a reduce-scatter before, and an all-gather
// after, what crosses the wire.
//
// Every rank of a host carries one contiguous part of the unit across the wire. The unit is cut
// wherever the part of a rank begins on a host of any size, into shares: for each share, one rank
// of every host carries all of it. If all hosts have the same number of ranks, a rank has one
// share.
#pragma once

#include <vector>

#include "stretto/comm/collective/builder.h"

namespace stretto::comm {

struct Share {
  Part part;
  int number = 0;           // the same on all ranks
  std::vector<int> member;  // by size of a host, as in Hosts::sizes: index of its rank

  // The rank of a host that carries the share.
  int carrier(const Hosts& hosts, int host) const;
};

class InHost {
 public:
  // Parts begin at multiples of `align`; small units may leave ranks without one.
  InHost(Builder& b, Part whole, int64_t align);

  const std::vector<Share>& own() const { return own_; }  // not empty ones
  int shares() const { return shares_; }                  // of the unit, at most
  bool alone() const { return b_.hosts.size(host()) == 1; }
  int host() const { return b_.hosts.host[b_.me]; }

  // Adds this rank's part over the ranks of the host. Returns the step; -1: there is nothing to
  // add.
  int32_t sum();
  // Where the host's sum of a share lies: the output, or the input of a rank that is alone.
  Place host_sum(const Share& share) const;

  // Once `ready` are done, sends this rank's part of the output to the others; receives theirs.
  void spread(Waits ready);

 private:
  Part part(int member) const;
  const std::vector<int>& neighbours() const { return b_.hosts.members[host()]; }

  Builder& b_;
  const Part whole_;
  const int64_t align_;
  const int index_;
  std::vector<Share> own_;
  int shares_ = 0;
};

// How many ranks of the largest host have a part.
double carriers(const Problem& problem, int64_t align);

}  // namespace stretto::comm
