// Trees in the form of the kernel: children side by side, and two ways to compare for all seven.
#include "stretto/ir/trees.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "stretto/kernels/trees/problem.h"
#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {
namespace {

using ir::TreeMode;
using kernels::TreesProblem;

constexpr int64_t kMostNodes = int64_t{1} << 30;
constexpr int64_t kMostFeatures = int64_t{1} << 28;

// What the kernel asks of a value: is it at most `split`, or equal to it? `swapped`: the answer
// yes leads where the model's answer no leads.
template <typename T>
struct Question {
  T split;
  bool equal = false, swapped = false, missing_is_yes = false;
};

// The largest T that is not above `value`. NaN is one: nothing is at most NaN.
template <typename T>
T at_most(double value) {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  const T rounded = static_cast<T>(value);
  return static_cast<double>(rounded) > value ? std::nextafter(rounded, -kInf) : rounded;
}

// The largest T below `value`; NaN where there is none.
template <typename T>
T below(double value) {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  const T floor = at_most<T>(value);
  if (static_cast<double>(floor) < value) return floor;
  return floor == -kInf ? std::numeric_limits<T>::quiet_NaN() : std::nextafter(floor, -kInf);
}

template <typename T>
Question<T> question_of(const ir::TreeBranch& branch) {
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  Question<T> q{.split = kNan};
  switch (branch.mode) {
    case TreeMode::kGreater:
      q.swapped = true;
      [[fallthrough]];
    case TreeMode::kLeq:
      q.split = at_most<T>(branch.split);
      break;
    case TreeMode::kGeq:
      q.swapped = true;
      [[fallthrough]];
    case TreeMode::kLess:
      q.split = below<T>(branch.split);
      break;
    case TreeMode::kNotEqual:
      q.swapped = true;
      [[fallthrough]];
    default:
      q.equal = true;
      if (static_cast<double>(static_cast<T>(branch.split)) == branch.split) {
        q.split = static_cast<T>(branch.split);
      }
  }
  // NaN makes every comparison false but that for being different.
  const bool missing_holds = branch.missing_is_true || branch.mode == TreeMode::kNotEqual;
  q.missing_is_yes = missing_holds != q.swapped;
  return q;
}

template <typename T>
struct Packed {
  std::vector<T> splits, weights;
  std::vector<int32_t> links, roots, ends, targets;
};

// A place of the model (a branch, or a leaf) and of the kernel's list of nodes.
struct TreePlace {
  bool is_leaf;
  int64_t index;
  size_t node;
  int64_t depth;
};

// Tree by tree, breadth first, so that the first steps of all walks share cache lines.
template <typename T>
Packed<T> packed_of(const ir::Trees& trees, TreesProblem& p) {
  Packed<T> out;
  std::vector<int64_t> leaf_of;  // by node; -1: a branch
  const auto add_node = [&] {
    out.splits.push_back(std::numeric_limits<T>::quiet_NaN());
    out.links.insert(out.links.end(), {static_cast<int32_t>(leaf_of.size()), 0});
    leaf_of.push_back(-1);
  };
  for (int64_t root : trees.roots) {
    out.roots.push_back(static_cast<int32_t>(leaf_of.size()));
    std::vector<TreePlace> places{{false, root, leaf_of.size(), 0}};
    add_node();
    for (size_t i = 0; i < places.size(); ++i) {
      const TreePlace place = places[i];
      p.depth = std::max(p.depth, place.depth);
      if (place.is_leaf) {
        leaf_of[place.node] = place.index;
        continue;
      }
      const ir::TreeBranch& branch = trees.branches[static_cast<size_t>(place.index)];
      const Question<T> q = question_of<T>(branch);
      const size_t first = leaf_of.size();
      out.splits[place.node] = q.split;
      out.links[2 * place.node] = static_cast<int32_t>(first);
      out.links[2 * place.node + 1] =
          static_cast<int32_t>(branch.feature << kernels::kTreeFeatureShift) |
          (q.equal ? kernels::kTreeEqual : 0) | (q.missing_is_yes ? kernels::kTreeMissing : 0);
      p.equal |= static_cast<uint8_t>(q.equal);
      p.missing |= static_cast<uint8_t>(q.missing_is_yes);
      for (int answer = 0; answer < 2; ++answer) {
        const int side = q.swapped ? 1 - answer : answer;
        places.push_back(
            {branch.is_leaf[side], branch.next[side], leaf_of.size(), place.depth + 1});
        add_node();
      }
    }
  }
  p.single = p.targets == 1 ? 1 : 0;
  for (int64_t leaf : leaf_of) {
    if (leaf >= 0) {
      if (trees.leaf_end(leaf) - trees.leaf_begin(leaf) != 1) p.single = 0;
      for (auto e = static_cast<size_t>(trees.leaf_begin(leaf));
           e < static_cast<size_t>(trees.leaf_end(leaf)); ++e) {
        out.targets.push_back(static_cast<int32_t>(trees.targets[e]));
        out.weights.push_back(static_cast<T>(trees.weights[e]));
      }
    }
    out.ends.push_back(static_cast<int32_t>(out.targets.size()));
  }
  return out;
}

template <typename T>
Tensor tensor_of(const std::vector<T>& values, Shape shape) {
  return Tensor::of<T>(std::move(shape), values);
}

template <typename T>
bool lower_as(Lowering& l, const ir::Node& node, const ir::Trees& trees, TreesProblem p) {
  const Packed<T> packed = packed_of<T>(trees, p);
  p.nodes = static_cast<int64_t>(packed.splits.size());
  p.entries = static_cast<int64_t>(packed.targets.size());
  if (p.nodes < 2 || p.entries < 1) return false;
  return l.add<TreesProblem>(
      node, kernels::kTrees, {node.inputs[0]}, {node.outputs[0]},
      {{p, {Layout::kPlain}, {Layout::kPlain}}},
      {tensor_of(packed.splits, {p.nodes}), tensor_of(packed.links, {p.nodes, 2}),
       tensor_of(packed.roots, {p.trees}), tensor_of(packed.ends, {p.nodes}),
       tensor_of(packed.targets, {p.entries}), tensor_of(packed.weights, {p.entries})});
}

}  // namespace

bool lower_trees(Lowering& l, const ir::Node& node) {
  const Shape& shape = l.shape(node.inputs[0]);
  const ir::Trees trees = ir::trees_of(node.attributes, shape[1]);
  TreesProblem p{};
  p.target = l.target();
  p.rows = shape[0];
  p.features = shape[1];
  p.targets = trees.target_count;
  p.trees = static_cast<int64_t>(trees.roots.size());
  p.dtype = l.graph().value(node.inputs[0]).dtype;
  p.sum = static_cast<kernels::TreeSum>(trees.aggregate);
  // A branch has two children, which may be one leaf: its entries are stored twice then.
  double entries = 0;
  for (const ir::TreeBranch& branch : trees.branches) {
    if (branch.mode == TreeMode::kMember) return false;
    for (int i = 0; i < 2; ++i) {
      if (branch.is_leaf[i]) {
        entries +=
            static_cast<double>(trees.leaf_end(branch.next[i]) - trees.leaf_begin(branch.next[i]));
      }
    }
  }
  // Where many branches lead to one leaf, a file of a megabyte could ask for gigabytes.
  constexpr double kMostCopies = 8, kFewEntries = 1 << 20;
  if (entries > kMostCopies * static_cast<double>(trees.weights.size()) + kFewEntries) return false;
  const auto most = static_cast<double>(kMostNodes);
  if (static_cast<double>(trees.branches.size()) * 3 > most || entries > most ||
      p.features > kMostFeatures || p.targets > kMostNodes) {
    return false;
  }
  if (p.dtype == DType::kFloat32) return lower_as<float>(l, node, trees, p);
  if (p.dtype == DType::kFloat64) return lower_as<double>(l, node, trees, p);
  return false;
}

}  // namespace stretto::runtime
