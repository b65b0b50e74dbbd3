// stretto.TreeEnsemble: ai.onnx.ml's TreeEnsemble without its post_transform. Every tree leads a
// row to a leaf, whose weight goes to one of the targets.
#include <algorithm>
#include <cmath>
#include <limits>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'}};
constexpr Port kOutputs[] = {{"Y", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {
    {"aggregate_function", AttributeKind::kInt},
    {"leaf_targetids", AttributeKind::kInts, true},
    {"leaf_weights", AttributeKind::kTensor, true},
    {"membership_values", AttributeKind::kTensor},
    {"n_targets", AttributeKind::kInt},
    {"nodes_falseleafs", AttributeKind::kInts, true},
    {"nodes_falsenodeids", AttributeKind::kInts, true},
    {"nodes_featureids", AttributeKind::kInts, true},
    {"nodes_missing_value_tracks_true", AttributeKind::kInts},
    {"nodes_modes", AttributeKind::kTensor, true},
    {"nodes_splits", AttributeKind::kTensor, true},
    {"nodes_trueleafs", AttributeKind::kInts, true},
    {"nodes_truenodeids", AttributeKind::kInts, true},
    {"tree_roots", AttributeKind::kInts, true},
};

enum Mode : int64_t { kLeq, kLess, kGeq, kGreater, kEqual, kNotEqual, kMember };
enum Aggregate : int64_t { kAverage, kSum, kLeast, kMost };

struct Branch {
  int64_t mode = kLeq, feature = 0;
  double split = 0;
  std::vector<double> members;
  bool missing_is_true = false;
  // Where it goes on by truth, 0 or 1: a branch, or a leaf.
  int64_t next[2] = {0, 0};
  bool is_leaf[2] = {false, false};

  bool holds(double x) const {
    if (missing_is_true && std::isnan(x)) return true;
    switch (mode) {
      case kLeq:
        return x <= split;
      case kLess:
        return x < split;
      case kGeq:
        return x >= split;
      case kGreater:
        return x > split;
      case kEqual:
        return x == split;
      case kNotEqual:
        return x != split;
      default:
        return std::find(members.begin(), members.end(), x) != members.end();
    }
  }
};

struct Trees {
  std::vector<Branch> branches;
  std::vector<int64_t> roots, targets;  // targets: by leaf
  std::vector<double> weights;          // by leaf
  int64_t target_count = 1, aggregate = kSum;
};

std::vector<double> numbers_of(const Attributes& attributes, std::string_view name) {
  const Tensor* tensor = attributes.tensor(name);
  return tensor == nullptr ? std::vector<double>{} : tensor->as_doubles();
}

// The sets of the branches that ask for membership, which are NaN-terminated, in order.
void take_members(Trees& trees, const std::vector<double>& values) {
  size_t at = 0;
  for (Branch& branch : trees.branches) {
    if (branch.mode != kMember) continue;
    for (; at < values.size() && !std::isnan(values[at]); ++at)
      branch.members.push_back(values[at]);
    ++at;
  }
}

// Every walk must end: a branch is reached from one place at most.
void check_walks(const Trees& trees) {
  std::vector<bool> seen(trees.branches.size());
  std::vector<int64_t> waiting = trees.roots;
  while (!waiting.empty()) {
    const int64_t at = waiting.back();
    waiting.pop_back();
    if (seen[static_cast<size_t>(at)]) throw_invalid("tree_roots: node {} is in two places", at);
    seen[static_cast<size_t>(at)] = true;
    const Branch& branch = trees.branches[static_cast<size_t>(at)];
    for (int i = 0; i < 2; ++i) {
      if (!branch.is_leaf[i]) waiting.push_back(branch.next[i]);
    }
  }
}

Trees trees_of(const Attributes& attributes, int64_t features) {
  Trees trees;
  trees.roots = attributes.integers("tree_roots", {});
  trees.targets = attributes.integers("leaf_targetids", {});
  trees.weights = numbers_of(attributes, "leaf_weights");
  trees.target_count = attributes.integer("n_targets", 1);
  trees.aggregate = attributes.integer("aggregate_function", kSum);
  const std::vector<int64_t> feature = attributes.integers("nodes_featureids", {});
  const size_t count = feature.size();
  const std::vector<double> modes = numbers_of(attributes, "nodes_modes");
  const std::vector<double> splits = numbers_of(attributes, "nodes_splits");
  const std::vector<int64_t> tracks =
      attributes.integers("nodes_missing_value_tracks_true", std::vector<int64_t>(count));
  const std::vector<int64_t> next[] = {attributes.integers("nodes_falsenodeids", {}),
                                       attributes.integers("nodes_truenodeids", {})};
  const std::vector<int64_t> leaf[] = {attributes.integers("nodes_falseleafs", {}),
                                       attributes.integers("nodes_trueleafs", {})};
  const auto expect = [&](size_t size, size_t wanted, std::string_view name) {
    if (size != wanted) throw_invalid("{}: expected {} values, got {}", name, wanted, size);
  };
  const auto expect_below = [](int64_t value, size_t limit, std::string_view name) {
    if (value < 0 || value >= static_cast<int64_t>(limit)) {
      throw_invalid("{}: {} is outside [0, {})", name, value, limit);
    }
  };
  expect(modes.size(), count, "nodes_modes");
  expect(splits.size(), count, "nodes_splits");
  expect(tracks.size(), count, "nodes_missing_value_tracks_true");
  expect(trees.weights.size(), trees.targets.size(), "leaf_weights");
  expect_below(trees.aggregate, kMost + 1, "aggregate_function");
  if (trees.target_count < 1 || trees.target_count > kMaxElements) {
    throw_invalid("n_targets: expected 1 or more, got {}", trees.target_count);
  }
  for (int64_t target : trees.targets) {
    expect_below(target, static_cast<size_t>(trees.target_count), "leaf_targetids");
  }
  if (trees.roots.empty()) throw_invalid("tree_roots: expected a tree");
  for (int64_t root : trees.roots) expect_below(root, count, "tree_roots");
  for (int i = 0; i < 2; ++i) {
    expect(next[i].size(), count, i == 0 ? "nodes_falsenodeids" : "nodes_truenodeids");
    expect(leaf[i].size(), count, i == 0 ? "nodes_falseleafs" : "nodes_trueleafs");
  }
  trees.branches.resize(count);
  for (size_t n = 0; n < count; ++n) {
    Branch& branch = trees.branches[n];
    branch.mode = static_cast<int64_t>(modes[n]);
    branch.feature = feature[n];
    branch.split = splits[n];
    branch.missing_is_true = tracks[n] != 0;
    expect_below(branch.mode, kMember + 1, "nodes_modes");
    expect_below(branch.feature, static_cast<size_t>(features), "nodes_featureids");
    for (int i = 0; i < 2; ++i) {
      branch.next[i] = next[i][n];
      branch.is_leaf[i] = leaf[i][n] != 0;
      expect_below(branch.next[i], branch.is_leaf[i] ? trees.targets.size() : count,
                   i == 0 ? "nodes_falsenodeids" : "nodes_truenodeids");
    }
  }
  take_members(trees, numbers_of(attributes, "membership_values"));
  check_walks(trees);
  return trees;
}

void infer(Inference& c) {
  if (c.rank(0) != 2) throw_invalid("X: expected two dimensions, got {}", shape_text(c.shape(0)));
  const Trees trees = trees_of(c.attributes(), c.shape(0)[1]);
  c.set_output(0, c.dtype(0), {c.shape(0)[0], trees.target_count});
}

template <typename T>
int64_t leaf_of(const Trees& trees, int64_t root, const T* row) {
  for (int64_t at = root;;) {
    const Branch& branch = trees.branches[static_cast<size_t>(at)];
    const int side = branch.holds(static_cast<double>(row[branch.feature])) ? 1 : 0;
    if (branch.is_leaf[side]) return branch.next[side];
    at = branch.next[side];
  }
}

// Targets that no leaf gives anything are 0.
void score(const Trees& trees, const std::vector<int64_t>& leaves, std::vector<double>& scores) {
  const double none = std::numeric_limits<double>::infinity();
  const bool least = trees.aggregate == kLeast, most = trees.aggregate == kMost;
  std::fill(scores.begin(), scores.end(), least ? none : most ? -none : 0);
  for (int64_t leaf : leaves) {
    double& s = scores[static_cast<size_t>(trees.targets[static_cast<size_t>(leaf)])];
    const double weight = trees.weights[static_cast<size_t>(leaf)];
    s = least ? std::min(s, weight) : most ? std::max(s, weight) : s + weight;
  }
  for (double& s : scores) {
    if (std::isinf(s) && (least || most)) s = 0;
    if (trees.aggregate == kAverage) s /= static_cast<double>(trees.roots.size());
  }
}

void evaluate(Evaluation& c) {
  const Tensor& x = c.inputs[0];
  const Trees trees = trees_of(c.attributes, x.dim(1));
  with_type<kRealTypes>(x.dtype(), [&]<typename T>() {
    const T* from = data_of<T>(x);
    T* to = data_of<T>(c.make_output(0));
    const auto rows = [&](int64_t begin, int64_t end) {
      std::vector<int64_t> leaves(trees.roots.size());
      std::vector<double> scores(static_cast<size_t>(trees.target_count));
      for (int64_t row = begin; row < end; ++row) {
        for (size_t i = 0; i < leaves.size(); ++i) {
          leaves[i] = leaf_of(trees, trees.roots[i], from + row * x.dim(1));
        }
        score(trees, leaves, scores);
        std::transform(scores.begin(), scores.end(), to + row * trees.target_count,
                       [](double s) { return static_cast<T>(s); });
      }
    };
    parallel(c.team, x.dim(0), 16, rows);
  });
}

}  // namespace

const Operator kTreeEnsemble{.name = "stretto.TreeEnsemble",
                             .inputs = kInputs,
                             .outputs = kOutputs,
                             .attributes = kAttributes,
                             .infer = infer,
                             .evaluate = evaluate};

}  // namespace stretto::ir::ops
