// The trees of stretto.TreeEnsemble, read from its attributes and checked.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "stretto/ir/graph.h"

namespace stretto::ir {

enum class TreeMode : uint8_t { kLeq, kLess, kGeq, kGreater, kEqual, kNotEqual, kMember };
enum class TreeAggregate : uint8_t { kAverage, kSum, kLeast, kMost };  // numbers of ONNX

struct TreeBranch {
  TreeMode mode = TreeMode::kLeq;
  bool missing_is_true = false;  // NaN takes the way of truth
  // Where the way goes on by truth, 0 or 1: a branch, or a leaf.
  bool is_leaf[2] = {false, false};
  int64_t next[2] = {0, 0};
  int64_t feature = 0;
  double split = 0;
  std::vector<double> members;  // of kMember

  bool holds(double x) const;
};

struct Trees {
  std::vector<TreeBranch> branches;
  std::vector<int64_t> roots;  // branches
  // What a leaf gives: entries [ends[leaf - 1], ends[leaf]), from 0 for the first leaf.
  std::vector<int64_t> ends;
  std::vector<int64_t> targets;  // by entry
  std::vector<double> weights;   // by entry
  int64_t target_count = 1;
  TreeAggregate aggregate = TreeAggregate::kSum;

  int64_t leaf_begin(int64_t leaf) const {
    return leaf == 0 ? 0 : ends[static_cast<size_t>(leaf - 1)];
  }
  int64_t leaf_end(int64_t leaf) const { return ends[static_cast<size_t>(leaf)]; }
};

// Throws InvalidArgument naming the attribute. Every index of the result is in range, for inputs
// of `features` columns, and every walk ends at a leaf.
Trees trees_of(const Attributes& attributes, int64_t features);

}  // namespace stretto::ir
