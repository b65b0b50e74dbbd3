// The algorithms in the list of algorithm.cc: for each its schedule, its cost, and why it may not
// fit. schedule.h says what they have in common.
#pragma once

#include <string>

#include "stretto/comm/collective/algorithm.h"

namespace stretto::comm {

std::string always_fits(const Problem&);

// Costs of a flat algorithm: in each of `rounds`, every rank sends `elements` to every other.
Cost flat_cost(const Problem& problem, int rounds, double elements);

// One round: every rank sends everything to every other, and adds everything.
Schedule all_reduce_gather_sum(const Problem&, int64_t unit);
Cost all_reduce_gather_sum_cost(const Problem&);

// Reduce-scatter, then all-gather, each in one round between all pairs of ranks.
Schedule all_reduce_direct(const Problem&, int64_t unit);
Cost all_reduce_direct_cost(const Problem&);

// ceil(log2 n) rounds of exchange with a rank twice as far each time. Exact reductions combine in
// every round; others collect all contributions, whose bytes double each round, and sum at the end.
Schedule all_reduce_recursive_doubling(const Problem&, int64_t unit);
Cost all_reduce_recursive_doubling_cost(const Problem&);
std::string all_reduce_recursive_doubling_unfit(const Problem&);

// Partial sums travel around a ring in which each host appears once. Exact reductions only.
Schedule all_reduce_ring(const Problem&, int64_t unit);
Cost all_reduce_ring_cost(const Problem&);
std::string all_reduce_ring_unfit(const Problem&);

// Reduce-scatter inside each host; every rank then carries its share across the wire:
// reduce-scatter and all-gather among hosts, or, in the exchange form, one round in which every
// host gets every other's sums; all-gather inside each host. Hosts may differ in size.
Schedule all_reduce_hierarchical(const Problem&, int64_t unit);
Cost all_reduce_hierarchical_cost(const Problem&);
Schedule all_reduce_hierarchical_exchange(const Problem&, int64_t unit);
Cost all_reduce_hierarchical_exchange_cost(const Problem&);
std::string hierarchical_unfit(const Problem&);  // for every kind

// Between hosts in the order of their tree, inside hosts like all_reduce_hierarchical. Halving:
// each rank exchanges half of what it has left with one rank of the other side of every node, on
// the way to the root and back: the fewest bytes, and messages that grow with the logarithm of the
// hosts. Doubling: whole partial sums on the way to the root only: half the rounds, for small
// tensors.
Schedule all_reduce_tree_halving(const Problem&, int64_t unit);
Cost all_reduce_tree_halving_cost(const Problem&);
Schedule all_reduce_tree_doubling(const Problem&, int64_t unit);
Cost all_reduce_tree_doubling_cost(const Problem&);
std::string all_reduce_tree_halving_unfit(const Problem&);
std::string all_reduce_tree_doubling_unfit(const Problem&);

// The root sends to all; or a binomial tree over hosts, then inside each host; or a chain, host
// after host, which with many units sends the tensor through every card once.
Schedule broadcast_direct(const Problem&, int64_t unit);
Cost broadcast_direct_cost(const Problem&);
Schedule broadcast_tree(const Problem&, int64_t unit);
Cost broadcast_tree_cost(const Problem&);
Schedule broadcast_ring(const Problem&, int64_t unit);
Cost broadcast_ring_cost(const Problem&);

// Segments of the tensor, several under way, through different binomial trees over hosts: each card
// carries the tensor about once. One segment takes one tree. See pipelined_trees.h.
Schedule broadcast_pipelined_trees(const Problem&, int64_t unit);
Cost broadcast_pipelined_trees_cost(const Problem&);
std::string broadcast_pipelined_trees_unfit(const Problem&);
Schedule reduce_pipelined_trees(const Problem&, int64_t unit);
Cost reduce_pipelined_trees_cost(const Problem&);
std::string reduce_pipelined_trees_unfit(const Problem&);

// Hierarchical: a block crosses to one rank of every other host, which passes it on to its
// neighbours; these ranks differ from block to block. Recursive doubling: ceil(log2 n) rounds, in
// which every rank of a host gets the blocks of others itself, for small blocks.
Schedule all_gather_direct(const Problem&, int64_t unit);
Cost all_gather_direct_cost(const Problem&);
Schedule all_gather_ring(const Problem&, int64_t unit);
Cost all_gather_ring_cost(const Problem&);
Schedule all_gather_hierarchical(const Problem&, int64_t unit);
Cost all_gather_hierarchical_cost(const Problem&);
Schedule all_gather_recursive_doubling(const Problem&, int64_t unit);
Cost all_gather_recursive_doubling_cost(const Problem&);

// Hierarchical: for a block owned elsewhere, one rank of the host sums what its neighbours have and
// sends the sum. Tree halving: like that of the all-reduce, on the way to the root only.
Schedule reduce_scatter_direct(const Problem&, int64_t unit);
Cost reduce_scatter_direct_cost(const Problem&);
Schedule reduce_scatter_hierarchical(const Problem&, int64_t unit);
Cost reduce_scatter_hierarchical_cost(const Problem&);
Schedule reduce_scatter_ring(const Problem&, int64_t unit);
Cost reduce_scatter_ring_cost(const Problem&);
std::string reduce_scatter_ring_unfit(const Problem&);
Schedule reduce_scatter_tree_halving(const Problem&, int64_t unit);
Cost reduce_scatter_tree_halving_cost(const Problem&);
std::string reduce_scatter_tree_halving_unfit(const Problem&);

// All ranks send everything to the root; or a reduce-scatter whose owners send to the root; or sums
// of hosts in shares, sent to the root.
Schedule reduce_gather_sum(const Problem&, int64_t unit);
Cost reduce_gather_sum_cost(const Problem&);
Schedule reduce_direct(const Problem&, int64_t unit);
Cost reduce_direct_cost(const Problem&);
Schedule reduce_hierarchical(const Problem&, int64_t unit);
Cost reduce_hierarchical_cost(const Problem&);

// One round between all pairs of ranks that exchange data.
Schedule gather_direct(const Problem&, int64_t unit);
Cost rooted_direct_cost(const Problem&);
Schedule scatter_direct(const Problem&, int64_t unit);
Schedule all_to_all_direct(const Problem&, int64_t unit);
Cost all_to_all_direct_cost(const Problem&);

// Every rank signals every other; or ceil(log2 n) rounds with a rank twice as far each time.
Schedule barrier_direct(const Problem&, int64_t unit);
Cost barrier_direct_cost(const Problem&);
Schedule barrier_dissemination(const Problem&, int64_t unit);
Cost barrier_dissemination_cost(const Problem&);

}  // namespace stretto::comm
