#include "stretto/ir/trees.h"

#include <algorithm>

#include "stretto/base/error.h"

namespace stretto::ir {
namespace {

std::vector<double> numbers_of(const Attributes& attributes, std::string_view name) {
  const Tensor* tensor = attributes.tensor(name);
  return tensor == nullptr ? std::vector<double>{} : tensor->as_doubles();
}

// The sets of the branches that ask for membership, which are NaN-terminated, in order.
void take_members(Trees& trees, const std::vector<double>& values) {
  size_t at = 0;
  for (TreeBranch& branch : trees.branches) {
    if (branch.mode != TreeMode::kMember) continue;
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
    const TreeBranch& branch = trees.branches[static_cast<size_t>(at)];
    for (int i = 0; i < 2; ++i) {
      if (!branch.is_leaf[i]) waiting.push_back(branch.next[i]);
    }
  }
}

void expect(size_t size, size_t wanted, std::string_view name) {
  if (size != wanted) throw_invalid("{}: expected {} values, got {}", name, wanted, size);
}

void expect_below(int64_t value, size_t limit, std::string_view name) {
  if (value < 0 || value >= static_cast<int64_t>(limit)) {
    throw_invalid("{}: {} is outside [0, {})", name, value, limit);
  }
}

// Without sizes of leaves there is one entry per leaf.
void take_leaves(Trees& trees, const Attributes& attributes) {
  trees.targets = attributes.integers("leaf_targetids", {});
  trees.weights = numbers_of(attributes, "leaf_weights");
  expect(trees.weights.size(), trees.targets.size(), "leaf_weights");
  for (int64_t target : trees.targets) {
    expect_below(target, static_cast<size_t>(trees.target_count), "leaf_targetids");
  }
  const auto entries = static_cast<int64_t>(trees.targets.size());
  if (attributes.has("leaf_sizes")) {
    int64_t end = 0;
    for (int64_t size : attributes.integers("leaf_sizes", {})) {
      expect_below(size, static_cast<size_t>(entries - end + 1), "leaf_sizes");
      trees.ends.push_back(end += size);
    }
    expect(static_cast<size_t>(entries), static_cast<size_t>(end), "leaf_targetids");
  } else {
    for (int64_t end = 1; end <= entries; ++end) trees.ends.push_back(end);
  }
}

}  // namespace

bool TreeBranch::holds(double x) const {
  if (missing_is_true && std::isnan(x)) return true;
  switch (mode) {
    case TreeMode::kLeq:
      return x <= split;
    case TreeMode::kLess:
      return x < split;
    case TreeMode::kGeq:
      return x >= split;
    case TreeMode::kGreater:
      return x > split;
    case TreeMode::kEqual:
      return x == split;
    case TreeMode::kNotEqual:
      return x != split;
    default:
      return std::find(members.begin(), members.end(), x) != members.end();
  }
}

Trees trees_of(const Attributes& attributes, int64_t features) {
  constexpr auto kLastMode = static_cast<size_t>(TreeMode::kMember);
  constexpr auto kLastAggregate = static_cast<size_t>(TreeAggregate::kMost);
  Trees trees;
  trees.roots = attributes.integers("tree_roots", {});
  trees.target_count = attributes.integer("n_targets", 1);
  const int64_t aggregate = attributes.integer("aggregate_function", 1);
  expect_below(aggregate, kLastAggregate + 1, "aggregate_function");
  trees.aggregate = static_cast<TreeAggregate>(aggregate);
  if (trees.target_count < 1 || trees.target_count > kMaxElements) {
    throw_invalid("n_targets: expected 1 or more, got {}", trees.target_count);
  }
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
  expect(modes.size(), count, "nodes_modes");
  expect(splits.size(), count, "nodes_splits");
  expect(tracks.size(), count, "nodes_missing_value_tracks_true");
  take_leaves(trees, attributes);
  if (trees.roots.empty()) throw_invalid("tree_roots: expected a tree");
  for (int64_t root : trees.roots) expect_below(root, count, "tree_roots");
  for (int i = 0; i < 2; ++i) {
    expect(next[i].size(), count, i == 0 ? "nodes_falsenodeids" : "nodes_truenodeids");
    expect(leaf[i].size(), count, i == 0 ? "nodes_falseleafs" : "nodes_trueleafs");
  }
  trees.branches.resize(count);
  for (size_t n = 0; n < count; ++n) {
    TreeBranch& branch = trees.branches[n];
    const double mode = modes[n];
    if (!(mode >= 0 && mode <= static_cast<double>(kLastMode))) {
      throw_invalid("nodes_modes: {} is outside [0, {})", mode, kLastMode + 1);
    }
    branch.mode = static_cast<TreeMode>(mode);
    branch.feature = feature[n];
    branch.split = splits[n];
    branch.missing_is_true = tracks[n] != 0;
    expect_below(branch.feature, static_cast<size_t>(features), "nodes_featureids");
    for (int i = 0; i < 2; ++i) {
      branch.next[i] = next[i][n];
      branch.is_leaf[i] = leaf[i][n] != 0;
      expect_below(branch.next[i], branch.is_leaf[i] ? trees.ends.size() : count,
                   i == 0 ? "nodes_falsenodeids" : "nodes_truenodeids");
    }
  }
  take_members(trees, numbers_of(attributes, "membership_values"));
  check_walks(trees);
  return trees;
}

}  // namespace stretto::ir
