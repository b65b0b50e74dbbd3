// y[row] = what the leaves give that the row comes to, one leaf per tree: sums, averages, least or
// largest weights.
#pragma once

#include "stretto/kernels/family.h"

namespace stretto::kernels {

enum class TreeSum : uint8_t { kAverage, kSum, kLeast, kMost };

// A node's `link` is the place of its first child; the second stands behind it. A row goes to the
// second child where its feature is at most `split`, or equals it where the node says so, or is NaN
// where the node says so. A leaf leads to itself: its `split` is NaN, which nothing is at most.
constexpr int kTreeEqual = 1, kTreeMissing = 2, kTreeFeatureShift = 2;

// Input: x [rows, features]. Output: y [rows, targets]. Constants: splits [nodes], links
// [nodes, 2] of int32 (the first child; the feature << kTreeFeatureShift | kTreeEqual |
// kTreeMissing), roots [trees] of int32, ends [nodes] of int32 (how many entries the nodes up to
// this one have; branches have none), the entries' targets [entries] of int32 and weights
// [entries]. x, y, splits and weights have type `dtype`, float32 or float64. Targets that no leaf
// gives anything are 0. Sums have the order of the trees, whatever the number of rows.
struct TreesProblem {
  Target target{};
  int64_t rows = 1, features = 1, targets = 1;
  int64_t trees = 1, nodes = 1, entries = 1;
  int64_t depth = 0;  // of the deepest leaf
  DType dtype = DType::kFloat32;
  TreeSum sum = TreeSum::kSum;
  uint8_t equal = 0, missing = 0;  // whether any node compares so
  uint8_t single = 0;              // one target, and one entry per leaf
  uint8_t reserved[3] = {};
};

std::string problem_key(const TreesProblem& p);
Signature problem_signature(const TreesProblem& p);
double problem_flops(const TreesProblem& p);
std::string weights_key(TreesProblem p);

extern const Family kTrees;

}  // namespace stretto::kernels
