// Many binomial trees over the same hosts. A tensor is cut into segments, and each takes one of the
// trees, so that several are under way and every card carries about the tensor once each way. After
// Johnsson and Ho, "Optimum broadcasting and personalized communication in hypercubes", 1989.
//
// Every node of the tree of hosts (Hosts::tree) is held by a host below it, and this choice differs
// between segments. In a reduction the holders of a node's two sides add what they have: one of
// them sends, and the other one then holds the node. A broadcast goes the same ways back.
//
// Between the sides of a node a bit of the segment's number decides. A host that is d levels deep
// thus holds the node above it for 1/2 of the segments, the next one for 1/4, ..., and receives 1 -
// 2^-d of a tensor. The root never holds a node, because the whole sum enters its card anyway; the
// other side of each node above it holds instead, and receives the remaining 2^-d. So every card
// receives and sends the tensor once, for any number of hosts.
//
// A tensor of one segment takes one tree, in which the root holds all nodes above it, so that
// nothing has to be passed on to it.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/comm/collective/builder.h"

namespace stretto::comm {

struct Segment {
  Part part;
  int tag = 0;          // among those of the unit
  unsigned number = 0;  // among those of the operation: chooses the tree
};

class PipelinedTrees {
 public:
  explicit PipelinedTrees(const Problem& problem);

  // A unit is cut into shares, which different ranks of a host carry, and these into segments.
  std::vector<Part> shares(int64_t unit) const;
  std::vector<Segment> segments(int64_t unit, int share) const;
  int64_t segment_elements() const { return segment_; }  // at most

  // Whether the operation has one segment.
  bool single() const { return single_; }
  // Which side of a node that is no leaf holds it, and which host.
  bool left_holds(const TreeNode& node, const Segment& segment) const;
  int holder(const TreeNode& node, const Segment& segment) const;
  // The rank of a host that carries a share. On the root's host it is the root for a broadcast, and
  // for a sum of one segment, which ends there.
  int carrier(int host, int share) const;

 private:
  int64_t segments_of(Part share) const { return (share.count() + segment_ - 1) / segment_; }
  bool above_root(const TreeNode& node) const {
    return node.begin <= root_host_ && root_host_ < node.end;
  }

  const Problem& p_;
  const Hosts& hosts_;
  const int root_host_;
  int64_t segment_ = 1;
  int64_t per_unit_ = 1;  // segments of the first unit
  bool single_ = false;
};

}  // namespace stretto::comm
