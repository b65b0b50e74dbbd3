// Expected values are worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "stretto/ir/ops/run_operator.h"

namespace stretto::ir {
namespace {

using Ints = std::vector<int64_t>;
const double kNan = std::nan("");

Tensor doubles(const std::vector<double>& values) {
  return Tensor::of<double>({static_cast<int64_t>(values.size())}, values);
}

using Numbers = std::vector<double>;

Graph graph_of(const Tensor& x, const Attributes& attributes) {
  Graph graph;
  const ValueId in = graph.add_constant("x", x), out = graph.add_value("y");
  graph.add_node("stretto.TreeEnsemble", {in}, {out}, attributes, "n");
  graph.outputs = {out};
  infer(graph);
  return graph;
}

// The scores of rows of one feature.
Numbers scores(const Numbers& rows, const Attributes& attributes) {
  const Tensor x = Tensor::of<double>({static_cast<int64_t>(rows.size()), 1}, rows);
  const Graph graph = graph_of(x, attributes);
  const Tensor inputs[] = {x};
  return evaluate(graph, graph.nodes[0], inputs)[0].as_doubles();
}

// One branch on the only feature, with a leaf on either side; a second tree is the same.
Attributes stumps(int64_t mode, double split, int64_t trees = 1) {
  const auto n = static_cast<size_t>(trees);
  Ints roots, next_false, next_true, targets;
  std::vector<double> weights;
  for (int64_t t = 0; t < trees; ++t) {
    roots.push_back(t);
    next_false.push_back(2 * t);
    next_true.push_back(2 * t + 1);
    targets.insert(targets.end(), {0, 1});
    weights.insert(weights.end(), {static_cast<double>(1 + t), static_cast<double>(10 + t)});
  }
  Attributes all;
  all.set("leaf_targetids", targets);
  all.set("leaf_weights", doubles(weights));
  all.set("n_targets", int64_t{2});
  all.set("nodes_falseleafs", Ints(n, 1));
  all.set("nodes_falsenodeids", next_false);
  all.set("nodes_featureids", Ints(n, 0));
  all.set("nodes_modes", doubles(Numbers(n, static_cast<double>(mode))));
  all.set("nodes_splits", doubles(Numbers(n, split)));
  all.set("nodes_trueleafs", Ints(n, 1));
  all.set("nodes_truenodeids", next_true);
  all.set("tree_roots", roots);
  return all;
}

Attributes with(Attributes attributes, const std::string& name, Attribute value) {
  attributes.set(name, std::move(value));
  return attributes;
}

// Whether a number goes to the leaf of truth.
bool holds(int64_t mode, double split, double x) {
  return scores({x}, stumps(mode, split))[1] == 10;
}

TEST(TreeEnsemble, BranchesCompareAsTheirModeSays) {
  const bool wanted[6][3] = {{true, true, false},  {true, false, false}, {false, true, true},
                             {false, false, true}, {false, true, false}, {true, false, true}};
  for (int64_t mode = 0; mode < 6; ++mode) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(holds(mode, 2, 1 + i), wanted[mode][i]) << mode << i;
  }
}

TEST(TreeEnsemble, SetsEndWithNan) {
  const Attributes attributes =
      with(stumps(6, 0, 2), "membership_values", doubles({3, 4, kNan, 4, kNan}));
  EXPECT_EQ(scores({3, 4, 5}, attributes), (Numbers{2, 10, 0, 21, 3, 0}));
}

TEST(TreeEnsemble, MissingValuesGoWhereTheModelSays) {
  EXPECT_EQ(scores({kNan}, stumps(0, 2)), (Numbers{1, 0}));
  const Attributes tracks = with(stumps(0, 2), "nodes_missing_value_tracks_true", Ints{1});
  EXPECT_EQ(scores({kNan}, tracks), (Numbers{0, 10}));
}

TEST(TreeEnsemble, LeavesAreAggregatedByTarget) {
  const std::pair<int64_t, double> wanted[] = {{0, 10.5}, {1, 21}, {2, 10}, {3, 11}};
  for (const auto& [how, value] : wanted) {
    EXPECT_EQ(scores({1}, with(stumps(0, 2, 2), "aggregate_function", how)), (Numbers{0, value}));
  }
}

TEST(TreeEnsemble, TreesThatAreNoneAreRefused) {
  const auto error = [](const Attributes& attributes) -> std::string {
    try {
      graph_of(Tensor::of<double>({1, 1}, Numbers{1}), attributes);
    } catch (const InvalidArgument& e) {
      return e.what();
    }
    return "";
  };
  const auto expect = [&](const Attributes& attributes, std::string_view text) {
    const std::string found = error(attributes);
    EXPECT_NE(found.find(text), std::string::npos) << found;
  };
  expect(with(stumps(0, 2), "nodes_trueleafs", Ints{0}), "nodes_truenodeids: 1 is outside [0, 1)");
  expect(with(stumps(0, 2), "nodes_featureids", Ints{1}), "nodes_featureids: 1 is outside");
  expect(with(stumps(0, 2), "nodes_splits", doubles({1, 2})), "expected 1 values, got 2");
  const Attributes endless = with(stumps(0, 2), "nodes_truenodeids", Ints{0});
  expect(with(endless, "nodes_trueleafs", Ints{0}), "in two places");
}

}  // namespace
}  // namespace stretto::ir
