// stretto.TreeEnsemble: ai.onnx.ml's TreeEnsemble without its post_transform. Every tree leads a
// row to a leaf, whose weights go to the targets. In ONNX a leaf has one weight; here leaf_sizes
// may give it any number of them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/parallel.h"
#include "stretto/ir/ops/table.h"
#include "stretto/ir/trees.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'}};
constexpr Port kOutputs[] = {{"Y", kRealTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kAttributes[] = {
    {"aggregate_function", AttributeKind::kInt},
    {"leaf_sizes", AttributeKind::kInts},
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

void infer(Inference& c) {
  if (c.rank(0) != 2) throw_invalid("X: expected two dimensions, got {}", shape_text(c.shape(0)));
  const Trees trees = trees_of(c.attributes(), c.shape(0)[1]);
  c.set_output(0, c.dtype(0), {c.shape(0)[0], trees.target_count});
}

template <typename T>
int64_t leaf_of(const Trees& trees, int64_t root, const T* row) {
  for (int64_t at = root;;) {
    const TreeBranch& branch = trees.branches[static_cast<size_t>(at)];
    const int side = branch.holds(static_cast<double>(row[branch.feature])) ? 1 : 0;
    if (branch.is_leaf[side]) return branch.next[side];
    at = branch.next[side];
  }
}

// Targets that no leaf gives anything are 0.
void score(const Trees& trees, const std::vector<int64_t>& leaves, std::vector<double>& scores) {
  const double none = std::numeric_limits<double>::infinity();
  const bool least = trees.aggregate == TreeAggregate::kLeast;
  const bool most = trees.aggregate == TreeAggregate::kMost;
  std::fill(scores.begin(), scores.end(), least ? none : most ? -none : 0);
  for (int64_t leaf : leaves) {
    for (auto e = static_cast<size_t>(trees.leaf_begin(leaf));
         e < static_cast<size_t>(trees.leaf_end(leaf)); ++e) {
      double& s = scores[static_cast<size_t>(trees.targets[e])];
      const double weight = trees.weights[e];
      s = least ? std::min(s, weight) : most ? std::max(s, weight) : s + weight;
    }
  }
  for (double& s : scores) {
    if (std::isinf(s) && (least || most)) s = 0;
    if (trees.aggregate == TreeAggregate::kAverage) s /= static_cast<double>(trees.roots.size());
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
