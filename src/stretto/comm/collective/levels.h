// The way of a host through the tree of hosts (Hosts::tree), for algorithms that halve ranges of
// elements between the two sides of every node.
//
// A host's ranges are cells. At a node of depth d there are 2^d, and each is held, as the sum of
// the hosts below the node, by one of these hosts. Where nodes meet, cell c is cut into 2 c, which
// the left side keeps, and 2 c + 1. If the sides have different depths, cells of the shallow side
// are cut first, so any number of hosts works, without a round for those that are left over.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/comm/collective/builder.h"

namespace stretto::comm {

// So few ranks in several racks add in a tree too, but have few messages anyway. Reduce-scatters,
// which a tree copies, and operations with a codec, whose sums it encodes, take another way.
constexpr int kMostRanksWithoutTree = 16;

// A node above a host, and the side of it that the host is on.
struct Level {
  const TreeNode* node;
  const TreeNode* mine;
  const TreeNode* sibling;
  int side;  // 0: left

  // Each cell that a host has held below becomes 2^finer() of those that the sides exchange.
  int finer() const { return node->depth - 1 - mine->depth; }
};

std::vector<Level> path_of(const Hosts& hosts, int host);  // from the host to the root

// The host below `node` that holds cell `cell` of 2^depth; depth >= node->depth.
int holder(const Hosts& hosts, const TreeNode* node, int64_t cell, int depth);

// Appends the sum of what the two sides of a level have; `held` is that of the own side.
int32_t add_sides(Builder& b, const Level& level, Place held, Place got, Place to, int64_t count,
                  Waits waits);

// How many ranges a host has at every level of its path: one message each way for each.
std::vector<double> ranges_of(const std::vector<Level>& path);

}  // namespace stretto::comm
