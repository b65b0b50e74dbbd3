// Collects a block of every rank on every rank by recursive doubling: the bytes of messages double
// each round, and their number is the logarithm of the ranks.
#pragma once

#include <functional>
#include <vector>

#include "stretto/comm/collective/algorithm.h"
#include "stretto/comm/collective/builder.h"

namespace stretto::comm {

struct Collected {
  std::vector<Place> block;  // of each rank, in scratch memory in the order of summation
  Steps ready;               // when these are done, all blocks are there
};

// own: this rank's block, of count_of(me) elements.
Collected collect_blocks(Builder& b, Place own, const std::function<int64_t(int rank)>& count_of);

// Rounds, messages and elements for blocks of `block` elements. Of every round, the busiest card is
// counted: at most what any card has in all of them. combined: what a round adds is one block, and
// not those of all ranks that have been collected.
Cost doubling_cost(const Problem& problem, double block, bool combined);

}  // namespace stretto::comm
