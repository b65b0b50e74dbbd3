// Cases of transforms, sequences, losses, determinants and trees.
#include <cmath>

#include "stretto/ir/cases/table.h"

namespace stretto::ir::cases {

void dft(CaseDraw& d) {
  Shape shape{d.dim(4), d.dim(17)};
  if (d.maybe()) shape.push_back(d.dim(5));
  const auto rank = static_cast<int64_t>(shape.size()) + 1;
  shape.push_back(d.between(1, 2));
  d.toggle("inverse");
  d.toggle("onesided");
  d.input(shape, Fill::kTame);
  d.maybe() ? d.fixed_scalar(static_cast<double>(d.dim(19))) : d.absent();
  d.maybe() ? d.fixed_scalar(static_cast<double>(d.between(0, rank - 2) - (d.maybe() ? rank : 0)))
            : d.absent();
}

void stft(CaseDraw& d) {
  const int64_t frame = d.dim(9);
  const bool whole = d.toggle("onesided", true);
  d.input({d.between(1, 3), frame + d.between(0, 17), whole ? 1 : d.between(1, 2)}, Fill::kTame);
  d.fixed_scalar(static_cast<double>(d.between(1, 4)));
  const bool window = d.maybe();
  window ? d.either({frame}, Fill::kTame) : d.absent();
  !window || d.maybe() ? d.fixed_scalar(static_cast<double>(frame)) : d.absent();
}

void linear_attention(CaseDraw& d) {
  const int64_t batch = d.between(1, 2), steps = d.dim(5), kv_heads = d.between(1, 3);
  const int64_t q_heads = kv_heads * d.between(1, 2), key = d.dim(5), value = d.dim(5);
  const std::string rule =
      d.text("update_rule", "gated_delta", {"linear", "gated", "delta", "gated_delta"});
  d.set("q_num_heads", q_heads);
  d.set("kv_num_heads", kv_heads);
  d.number("scale", 0, {0.25});
  d.integer("chunk_size", 64, {16});
  d.outputs(2);
  d.input({batch, steps, q_heads * key}, Fill::kTame);
  d.input({batch, steps, kv_heads * key}, Fill::kTame);
  d.input({batch, steps, kv_heads * value}, Fill::kTame);
  d.maybe() ? d.input({batch, kv_heads, key, value}, Fill::kTame) : d.absent();
  const bool decays = rule == "gated" || rule == "gated_delta";
  const bool corrects = rule == "delta" || rule == "gated_delta";
  decays ? d.input({batch, steps, d.maybe() ? kv_heads : kv_heads * key}, Fill::kTame) : d.absent();
  corrects ? d.input({batch, steps, d.maybe() ? kv_heads : 1}, Fill::kTame) : d.absent();
}

void reverse_sequence(CaseDraw& d) {
  Shape shape{d.dim(5), d.dim(7)};
  if (d.maybe()) shape.push_back(d.dim(5));
  const bool batch_first = d.maybe();
  if (batch_first) {
    d.set("batch_axis", int64_t{0});
    d.set("time_axis", int64_t{1});
  }
  std::vector<int64_t> lengths(static_cast<size_t>(shape[batch_first ? 0 : 1]));
  for (int64_t& length : lengths) length = d.between(0, shape[batch_first ? 1 : 0]);
  d.input(shape);
  d.fixed(lengths);
}

void tensor_scatter(CaseDraw& d) {
  Shape cache{d.between(1, 3), d.dim(5), d.dim(5)};
  if (d.maybe()) cache.push_back(d.dim(3));
  const auto rank = static_cast<int64_t>(cache.size());
  int64_t axis = rank - 2;
  if (d.maybe()) {
    axis = d.between(1, rank - 1);
    d.set("axis", d.maybe() ? axis : axis - rank);
  }
  const bool circular = d.text("mode", "linear", {"circular"}) == "circular";
  Shape update = cache;
  update[axis] = d.between(0, cache[axis]);
  std::vector<int64_t> starts(static_cast<size_t>(cache[0]));
  for (int64_t& start : starts) {
    start = d.between(0, circular ? cache[axis] + 2 : cache[axis] - update[axis]);
  }
  d.input(cache);
  d.input(update);
  d.maybe() ? d.fixed(starts) : d.absent();
}

void negative_log_likelihood(CaseDraw& d) {
  Shape x{d.dim(4), d.dim(5)}, target{x[0]};
  for (int64_t i = d.between(0, 2); i > 0; --i) {
    x.push_back(d.dim(4));
    target.push_back(x.back());
  }
  d.text("reduction", "mean", {"none", "sum", "mean"});
  const int64_t ignored = d.integer("ignore_index", -100, {-1, 0});
  std::vector<double> classes(static_cast<size_t>(element_count(target)));
  for (double& c : classes) {
    const bool skip = ignored != -100 && d.rarely();
    c = static_cast<double>(skip ? ignored : d.between(0, x[1] - 1));
  }
  d.input(x, Fill::kTame);
  d.fixed_numbers(target, classes);
  d.maybe() ? d.either({x[1]}, Fill::kPositive) : d.absent();
}

void tfidf(CaseDraw& d) {
  const int64_t singles = d.between(1, 3), pairs = d.between(0, 3);
  std::vector<int64_t> pool, columns;
  for (int64_t i = 0; i < singles + 2 * pairs; ++i) pool.push_back(d.between(-2, 2));
  for (int64_t i = 0; i < singles + pairs; ++i) columns.push_back(i);
  d.set("pool_int64s", pool);
  d.set("ngram_counts", std::vector<int64_t>{0, singles});
  d.set("ngram_indexes", columns);
  d.set("mode", std::string(d.one_of<std::string_view>({"TF", "IDF", "TFIDF"})));
  d.set("min_gram_length", d.between(1, 2));
  d.set("max_gram_length", int64_t{2});
  d.set("max_skip_count", d.between(0, 2));
  if (d.maybe()) d.set("weights", std::vector<double>(columns.size(), 0.5));
  d.input(d.shape(1, 2, 9), Fill::kTame);
}

// Trees of three branches and four leaves.
void tree_ensemble(CaseDraw& d) {
  const int64_t trees = d.between(1, 3), features = d.dim(5), targets = d.between(1, 3);
  std::vector<int64_t> roots, next[2], leaf[2], feature, target, tracks;
  std::vector<int64_t> sizes;
  std::vector<double> splits, weights, members;
  const bool several = d.maybe();
  std::vector<uint8_t> modes;
  for (int64_t t = 0; t < trees; ++t) {
    roots.push_back(3 * t);
    for (int64_t n = 0; n < 3; ++n) {
      modes.push_back(static_cast<uint8_t>(d.between(0, 6)));
      if (modes.back() == 6) members.insert(members.end(), {1, 0.5, std::nan("")});
      feature.push_back(d.between(0, features - 1));
      splits.push_back(static_cast<double>(d.between(-2, 2)) / 2);
      tracks.push_back(d.between(0, 1));
      for (int side = 0; side < 2; ++side) {
        leaf[side].push_back(n == 0 ? 0 : 1);
        next[side].push_back(n == 0 ? 3 * t + 1 + side : 4 * t + 2 * (n - 1) + side);
      }
    }
    for (int64_t n = 0; n < 4; ++n) {
      sizes.push_back(several ? d.between(0, 3) : 1);
      for (int64_t e = 0; e < sizes.back(); ++e) {
        target.push_back(d.between(0, targets - 1));
        weights.push_back(static_cast<double>(d.between(-4, 4)) / 4);
      }
    }
  }
  const auto tensor = [](const auto& values) {
    using T = typename std::decay_t<decltype(values)>::value_type;
    return Tensor::of<T>({static_cast<int64_t>(values.size())}, values);
  };
  d.integer("aggregate_function", 1, {0, 2, 3});
  if (several) d.set("leaf_sizes", sizes);
  d.set("leaf_targetids", target);
  d.set("leaf_weights", tensor(weights));
  if (!members.empty()) d.set("membership_values", tensor(members));
  d.set("n_targets", targets);
  d.set("nodes_falseleafs", leaf[0]);
  d.set("nodes_falsenodeids", next[0]);
  d.set("nodes_featureids", feature);
  if (d.maybe()) d.set("nodes_missing_value_tracks_true", tracks);
  d.set("nodes_modes", tensor(modes));
  d.set("nodes_splits", tensor(splits));
  d.set("nodes_trueleafs", leaf[1]);
  d.set("nodes_truenodeids", next[1]);
  d.set("tree_roots", roots);
  d.input({d.batch(), features});
}

void det(CaseDraw& d) {
  Shape shape;
  for (int64_t i = d.between(0, 2); i > 0; --i) shape.push_back(d.dim(4));
  const int64_t size = d.dim(7);
  shape.insert(shape.end(), {size, size});
  d.input(shape, Fill::kTame);
}

}  // namespace stretto::ir::cases
