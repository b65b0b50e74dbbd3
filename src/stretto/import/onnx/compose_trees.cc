// Ensembles of trees of domain ai.onnx.ml. TreeEnsembleClassifier and TreeEnsembleRegressor list
// nodes with the numbers that a model gave them; TreeEnsemble and the graph count branches and
// leaves apart.
#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/import/onnx/compose_scores.h"

namespace stretto::onnx {
namespace {

using Id = Parts::Id;

// Leaves follow the modes of branches, which have ONNX's order.
constexpr std::string_view kModes[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                       "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
constexpr size_t kMember = 6, kLeaf = 7;

// The lists of a node, by the prefix of what leaves give: "class" or "target".
struct Lists {
  std::vector<int64_t> trees, ids, features, truths, falses, tracks;
  std::vector<uint8_t> modes;
  std::vector<double> splits;
  std::vector<int64_t> entry_trees, entry_ids, entry_targets;
  std::vector<double> entry_weights;
};

// Floats, or a tensor of them from version 3 on.
std::vector<double> numbers_of(const PendingNode& node, const std::string& name) {
  const Tensor* tensor = node.attributes.tensor(name + "_as_tensor");
  return tensor != nullptr ? tensor->as_doubles() : node.attributes.numbers(name, {});
}

std::vector<uint8_t> modes_of(const PendingNode& node) {
  std::vector<uint8_t> modes;
  const ir::Attribute* found = node.attributes.find("nodes_modes");
  const auto* texts = found == nullptr ? nullptr : std::get_if<std::vector<std::string>>(found);
  check(node, texts != nullptr, "nodes_modes: expected strings");
  for (const std::string& text : *texts) {
    const auto* at = std::find(std::begin(kModes), std::end(kModes), text);
    if (at == std::end(kModes) || at - kModes == kMember) {
      throw_invalid("{} \"{}\": nodes_modes: {} is no mode", node.op, node.name, text);
    }
    modes.push_back(static_cast<uint8_t>(at - kModes));
  }
  return modes;
}

Lists lists_of(const PendingNode& node, const std::string& prefix) {
  const ir::Attributes& a = node.attributes;
  const auto integers = [&](const std::string& name) { return a.integers(name, {}); };
  Lists lists{.trees = integers("nodes_treeids"),
              .ids = integers("nodes_nodeids"),
              .features = integers("nodes_featureids"),
              .truths = integers("nodes_truenodeids"),
              .falses = integers("nodes_falsenodeids"),
              .tracks = integers("nodes_missing_value_tracks_true"),
              .modes = modes_of(node),
              .splits = numbers_of(node, "nodes_values"),
              .entry_trees = integers(prefix + "_treeids"),
              .entry_ids = integers(prefix + "_nodeids"),
              .entry_targets = integers(prefix + "_ids"),
              .entry_weights = numbers_of(node, prefix + "_weights")};
  const auto expect = [&](size_t size, size_t wanted, const std::string& name) {
    check(node, size == wanted, fmt::format("{}: expected {} values, got {}", name, wanted, size));
  };
  const size_t count = lists.modes.size(), entries = lists.entry_targets.size();
  check(node, count > 0, "nodes_modes: expected at least one node");
  if (lists.tracks.empty()) lists.tracks.resize(count);
  expect(lists.trees.size(), count, "nodes_treeids");
  expect(lists.ids.size(), count, "nodes_nodeids");
  expect(lists.features.size(), count, "nodes_featureids");
  expect(lists.truths.size(), count, "nodes_truenodeids");
  expect(lists.falses.size(), count, "nodes_falsenodeids");
  expect(lists.tracks.size(), count, "nodes_missing_value_tracks_true");
  expect(lists.splits.size(), count, "nodes_values");
  expect(lists.entry_trees.size(), entries, prefix + "_treeids");
  expect(lists.entry_ids.size(), entries, prefix + "_nodeids");
  expect(lists.entry_weights.size(), entries, prefix + "_weights");
  return lists;
}

// Where a node of a tree stands in the lists, in order: files choose the numbers, and could choose
// those that a hash table is slow for.
struct NodePlace {
  int64_t tree, id;
  size_t at;
  std::pair<int64_t, int64_t> key() const { return {tree, id}; }
};
using NodeIndex = std::vector<NodePlace>;

NodeIndex index_of(const PendingNode& node, const Lists& lists) {
  NodeIndex index;
  for (size_t n = 0; n < lists.ids.size(); ++n) index.push_back({lists.trees[n], lists.ids[n], n});
  std::ranges::sort(index, {}, &NodePlace::key);
  const auto twice = std::ranges::adjacent_find(index, {}, &NodePlace::key);
  if (twice != index.end()) {
    throw_invalid("{} \"{}\": nodes_nodeids: tree {} has two nodes {}", node.op, node.name,
                  twice->tree, twice->id);
  }
  return index;
}

size_t find(const PendingNode& node, const NodeIndex& index, int64_t tree, int64_t id,
            std::string_view attribute) {
  const std::pair key(tree, id);
  const auto place = std::ranges::lower_bound(index, key, {}, &NodePlace::key);
  if (place == index.end() || place->key() != key) {
    throw_invalid("{} \"{}\": {}: tree {} has no node {}", node.op, node.name, attribute, tree, id);
  }
  return place->at;
}

// The attributes of stretto.TreeEnsemble that describe the trees.
class Converter {
 public:
  Converter(const PendingNode& node, const std::string& prefix)
      : node_(node),
        prefix_(prefix),
        lists_(lists_of(node, prefix)),
        index_(index_of(node, lists_)) {}

  const Lists& lists() const { return lists_; }

  ir::Attributes convert(int64_t targets) {
    number_nodes();
    find_children();
    find_roots();
    find_cycles();
    ir::Attributes all;
    take_leaves(all);
    const auto tensor = [](const auto& values) {
      using T = typename std::decay_t<decltype(values)>::value_type;
      return Tensor::of<T>({static_cast<int64_t>(values.size())}, values);
    };
    all.set("n_targets", targets);
    all.set("nodes_falseleafs", leafs_[0]);
    all.set("nodes_falsenodeids", next_[0]);
    all.set("nodes_featureids", features_);
    all.set("nodes_missing_value_tracks_true", tracks_);
    all.set("nodes_modes", tensor(modes_));
    all.set("nodes_splits", tensor(splits_));
    all.set("nodes_trueleafs", leafs_[1]);
    all.set("nodes_truenodeids", next_[1]);
    all.set("tree_roots", roots_);
    return all;
  }

 private:
  bool is_leaf(size_t n) const { return lists_.modes[n] == kLeaf; }

  // Branches and leaves each get numbers of their own, in the order of the file.
  void number_nodes() {
    for (size_t n = 0; n < lists_.modes.size(); ++n) {
      number_.push_back(is_leaf(n) ? leaf_count_++ : branch_count_++);
    }
  }

  void add_branch(uint8_t mode, int64_t feature, double split, int64_t tracks) {
    modes_.push_back(mode);
    features_.push_back(feature);
    splits_.push_back(split);
    tracks_.push_back(tracks);
  }

  void add_child(int side, size_t child) {
    leafs_[side].push_back(is_leaf(child) ? 1 : 0);
    next_[side].push_back(number_[child]);
  }

  void find_children() {
    has_parent_.resize(number_.size());
    for (size_t n = 0; n < number_.size(); ++n) {
      if (is_leaf(n)) continue;
      add_branch(lists_.modes[n], lists_.features[n], lists_.splits[n], lists_.tracks[n]);
      for (int side = 0; side < 2; ++side) {
        const std::string_view attribute = side == 0 ? "nodes_falsenodeids" : "nodes_truenodeids";
        const std::vector<int64_t>& ids = side == 0 ? lists_.falses : lists_.truths;
        const size_t child = find(node_, index_, lists_.trees[n], ids[n], attribute);
        if (has_parent_[child] && !is_leaf(child)) {
          throw_invalid("{} \"{}\": {}: node {} of tree {} has two parents", node_.op, node_.name,
                        attribute, ids[n], lists_.trees[n]);
        }
        has_parent_[child] = true;
        add_child(side, child);
      }
    }
  }

  // In the order in which trees begin. A tree that is a leaf becomes a branch with the leaf on
  // either side.
  void find_roots() {
    std::map<int64_t, size_t> roots;
    std::vector<int64_t> order;
    for (size_t n = 0; n < number_.size(); ++n) {
      const int64_t tree = lists_.trees[n];
      if (order.empty() || order.back() != tree) order.push_back(tree);
      if (has_parent_[n]) continue;
      const auto [at, fresh] = roots.try_emplace(tree, n);
      if (!fresh) {
        throw_invalid("{} \"{}\": nodes_nodeids: nodes {} and {} of tree {} have no parent",
                      node_.op, node_.name, lists_.ids[at->second], lists_.ids[n], tree);
      }
    }
    std::set<int64_t> done;
    for (int64_t tree : order) {
      if (!done.insert(tree).second) continue;
      const auto at = roots.find(tree);
      if (at == roots.end()) {
        throw_invalid("{} \"{}\": nodes_truenodeids: tree {} has no root, its nodes form a cycle",
                      node_.op, node_.name, tree);
      }
      if (is_leaf(at->second)) {
        roots_.push_back(static_cast<int64_t>(modes_.size()));
        add_branch(0, 0, 0, 0);
        for (int side = 0; side < 2; ++side) add_child(side, at->second);
      } else {
        roots_.push_back(number_[at->second]);
      }
    }
  }

  // A branch has one parent at most, so that those which no root leads to are in a cycle, or below.
  void find_cycles() const {
    std::vector<bool> seen(modes_.size());
    std::vector<int64_t> waiting = roots_;
    while (!waiting.empty()) {
      const auto at = static_cast<size_t>(waiting.back());
      waiting.pop_back();
      seen[at] = true;
      for (int side = 0; side < 2; ++side) {
        if (leafs_[side][at] == 0) waiting.push_back(next_[side][at]);
      }
    }
    for (size_t n = 0; n < number_.size(); ++n) {
      if (is_leaf(n) || seen[static_cast<size_t>(number_[n])]) continue;
      throw_invalid("{} \"{}\": nodes_truenodeids: the root of tree {} does not lead to node {}",
                    node_.op, node_.name, lists_.trees[n], lists_.ids[n]);
    }
  }

  void take_leaves(ir::Attributes& all) {
    std::vector<int64_t> sizes(static_cast<size_t>(leaf_count_));
    std::vector<std::vector<size_t>> entries(sizes.size());
    for (size_t e = 0; e < lists_.entry_ids.size(); ++e) {
      const size_t n =
          find(node_, index_, lists_.entry_trees[e], lists_.entry_ids[e], prefix_ + "_nodeids");
      if (!is_leaf(n)) {
        throw_invalid("{} \"{}\": {}_nodeids: node {} of tree {} is no leaf", node_.op, node_.name,
                      prefix_, lists_.entry_ids[e], lists_.entry_trees[e]);
      }
      entries[static_cast<size_t>(number_[n])].push_back(e);
    }
    std::vector<int64_t> targets;
    std::vector<double> weights;
    for (size_t leaf = 0; leaf < entries.size(); ++leaf) {
      sizes[leaf] = static_cast<int64_t>(entries[leaf].size());
      for (size_t e : entries[leaf]) {
        targets.push_back(lists_.entry_targets[e]);
        weights.push_back(lists_.entry_weights[e]);
      }
    }
    // One entry per leaf is what ONNX's TreeEnsemble has too.
    const bool single = std::all_of(sizes.begin(), sizes.end(), [](int64_t n) { return n == 1; });
    if (!single) all.set("leaf_sizes", sizes);
    all.set("leaf_targetids", targets);
    all.set("leaf_weights", Tensor::of<double>({static_cast<int64_t>(weights.size())}, weights));
  }

  const PendingNode& node_;
  const std::string prefix_;
  const Lists lists_;
  const NodeIndex index_;
  std::vector<int64_t> number_;  // by node: of its branch or its leaf
  int64_t branch_count_ = 0, leaf_count_ = 0;
  std::vector<bool> has_parent_;
  std::vector<uint8_t> modes_;
  std::vector<int64_t> features_, tracks_, next_[2], leafs_[2], roots_;
  std::vector<double> splits_;
};

// Numbers that are added to scores, as a row of the scores' type.
Id plus(PendingNode& node, Id scores, const std::vector<double>& base) {
  if (base.empty()) return scores;
  Parts parts(node);
  const Tensor row = Tensor::of<double>({static_cast<int64_t>(base.size())}, base);
  return parts.add(scores, parts.constant(row.converted(parts.dtype(scores))));
}

// Classes that no leaf has a score for do not win. Base values are scores.
Id without_unscored(PendingNode& node, Id scores, const std::vector<bool>& scored) {
  std::vector<double> row;
  for (bool is : scored) row.push_back(is ? 0 : -std::numeric_limits<double>::infinity());
  if (std::find(scored.begin(), scored.end(), false) == scored.end()) return scores;
  return plus(node, scores, row);
}

// A sum of one score per class, and one score for the second class: what follows is what ONNX
// Runtime does, where ONNX says little.
void classify_two(PendingNode& node, Id scores, const std::vector<bool>& scored, bool positive,
                  std::vector<double> base, const std::vector<int64_t>& labels) {
  Parts parts(node);
  const Transform transform = transform_of(node);
  const double limit = positive ? 0.5 : 0;
  if (!scored[1]) {
    const Id first = plus(node, parts.slice(scores, 1, 0, 1),
                          base.empty() ? base : std::vector<double>{base[0]});
    const Id score = parts.cast(first, DType::kFloat32);
    const Id label = label_above(node, score, limit, labels);
    if (base.size() < 2) {
      node.results = {label, two_columns(node, score, positive, transform)};
    } else {
      const Id zero = parts.subtract(score, score);
      node.results = {label, transformed(node, parts.concat({score, zero}, 1), transform)};
    }
    return;
  }
  if (base.size() == 2) {
    const Id second = plus(node, parts.slice(scores, 1, 0, 1), {base[1]});
    const Id first = parts.op("Neg", {second});
    scores = parts.concat({scored[0] ? first : parts.subtract(second, second), second}, 1);
  } else if (base.size() == 1 && scored[0]) {
    scores = plus(node, scores, {base[0], 0});
  }
  scores = parts.cast(scores, DType::kFloat32);
  const Id label = scored[0] ? label_of_largest(node, scores, labels)
                             : label_above(node, parts.slice(scores, 1, 1, 2), limit, labels);
  node.results = {label, transformed(node, scores, transform)};
}

}  // namespace

void compose_tree_ensemble(PendingNode& node) {
  constexpr std::string_view kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  expect_inputs(node, 1);
  ir::Attributes attributes = node.attributes;
  const int64_t transform = attributes.integer("post_transform", 0);
  check(node, transform >= 0 && transform < static_cast<int64_t>(std::size(kNames)),
        fmt::format("post_transform: {} is outside [0, {})", transform, std::size(kNames)));
  attributes.erase("post_transform");
  attributes.erase("nodes_hitrates");  // how often nodes were passed when the trees were grown
  const Id y = Parts(node).op("stretto.TreeEnsemble", {node.inputs[0]}, attributes);
  node.results = {transformed(node, y, static_cast<Transform>(transform))};
}

void compose_tree_ensemble_regressor(PendingNode& node) {
  static constexpr std::string_view kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const Id x = feature_rows(node, true);
  const int64_t targets = node.attributes.integer("n_targets", 1);
  const std::string text = node.attributes.text("aggregate_function", "SUM");
  const auto* how = std::find(std::begin(kAggregates), std::end(kAggregates), text);
  check(node, how != std::end(kAggregates),
        fmt::format("aggregate_function: expected AVERAGE, SUM, MIN or MAX, got {}", text));
  ir::Attributes attributes = Converter(node, "target").convert(targets);
  attributes.set("aggregate_function", static_cast<int64_t>(how - kAggregates));
  const std::vector<double> base = numbers_of(node, "base_values");
  check(node, base.empty() || static_cast<int64_t>(base.size()) == targets,
        fmt::format("base_values: expected {} values, got {}", targets, base.size()));
  Parts parts(node);
  const Id sums = plus(node, parts.op("stretto.TreeEnsemble", {x}, attributes), base);
  const Id scores = parts.cast(sums, DType::kFloat32);
  // The functions that compare classes leave a single target as it is, as in ONNX Runtime.
  const Transform transform = transform_of(node);
  const bool applies = targets > 1 || transform == Transform::kProbit;
  node.results = {applies ? transformed(node, scores, transform) : scores};
}

void compose_tree_ensemble_classifier(PendingNode& node) {
  const Id x = feature_rows(node, true);
  const std::vector<int64_t> labels = class_labels(node, "classlabels_int64s");
  const auto classes = static_cast<int64_t>(labels.size());
  check(node, classes > 1, "classlabels_int64s: expected two labels or more");
  Converter converter(node, "class");
  const ir::Attributes attributes = converter.convert(classes);
  const std::vector<double> base = numbers_of(node, "base_values");
  Parts parts(node);
  Id scores = parts.op("stretto.TreeEnsemble", {x}, attributes);
  std::vector<bool> scored(labels.size(), classes > 2 && !base.empty());
  for (int64_t target : converter.lists().entry_targets) scored[static_cast<size_t>(target)] = true;
  const bool fits = base.empty() || static_cast<int64_t>(base.size()) == classes;
  check(node, fits || (classes == 2 && base.size() == 1),
        fmt::format("base_values: expected {} values, got {}", classes, base.size()));
  if (classes == 2) {
    const std::vector<double>& weights = converter.lists().entry_weights;
    const bool positive =
        std::all_of(weights.begin(), weights.end(), [](double w) { return !(w < 0); });
    return classify_two(node, scores, scored, positive, base, labels);
  }
  scores = parts.cast(plus(node, scores, base), DType::kFloat32);
  const Id label = label_of_largest(node, without_unscored(node, scores, scored), labels);
  node.results = {label, transformed(node, scores, transform_of(node))};
}

}  // namespace stretto::onnx
