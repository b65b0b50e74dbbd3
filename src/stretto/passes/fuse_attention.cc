// softmax(scale q k^T + mask) v becomes one node on rows of packed heads (arXiv:1706.03762,
// section 3.2). Exporters slice, reshape and transpose q, k and v in many ways; all that counts is
// which elements of which rows they end up as, so operands are traced as strided views.
#include <algorithm>
#include <cmath>
#include <limits>

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"
#include "stretto/passes/view.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"attention"};

// Next to any unmasked score, exp() of a mask value this low is zero.
constexpr double kMasked = -1e4;

// What goes into the softmax.
struct Scores {
  ValueId q = kNone, k_transposed = kNone, mask = kNone;
  double scale = 1;
  ValueId keep = kNone;  // Where(keep, scores, masked_value): a mask still to be made
  ValueId drop = kNone;  // Where(drop, masked_value, scores)
  double masked_value = 0;
};

// The node that makes `id`, a softmax, or one under Where(IsNaN(softmax), 0, softmax): exporters
// write that so that queries which see no key give zeros. What the importer writes for ONNX's
// Attention looks at the scores: Where(ReduceMax(scores, -1) = -inf, 0, softmax). -1: something
// else.
struct Weights {
  int softmax = -1;
  bool zeros = false;
  bool scores_are_tested = false;
};

// Node `where` when it is the second of these.
Weights after_test_of_scores(const Rewriter& graph, int where) {
  const auto& in = graph.node(where).inputs;
  const int equal = graph.maker(in[0], "Equal"), softmax = graph.maker(in[2], "Softmax");
  if (equal < 0 || softmax < 0 || !graph.used_once(in[0]) || !graph.used_once(in[2]) ||
      !all_equal(graph, in[1], 0) ||
      graph.shape(graph.node(where).outputs[0]) != graph.shape(in[2])) {
    return {};
  }
  const auto& sides = graph.node(equal).inputs;
  const ValueId scores = graph.node(softmax).inputs[0];
  const auto low = scalar(graph, sides[1]);
  const int top = graph.maker(sides[0], "ReduceMax");
  if (top < 0 || !low || *low != -std::numeric_limits<double>::infinity() ||
      !graph.used_once(sides[0]) || graph.node(top).inputs[0] != scores ||
      graph.is_output(scores) || graph.users(scores).size() != 2) {
    return {};
  }
  Shape one_key = graph.shape(scores);
  const auto axes = reduce_axes(graph, top);
  if (!axes || *axes != std::vector{static_cast<int64_t>(one_key.size()) - 1}) return {};
  one_key.back() = 1;
  return graph.shape(sides[0]) == one_key ? Weights{softmax, true, true} : Weights{};
}

Weights softmax_of(const Rewriter& graph, ValueId id) {
  if (!graph.used_once(id)) return {};
  if (const int n = graph.maker(id, "Softmax"); n >= 0) return {.softmax = n};
  const int where = graph.maker(id, "Where");
  if (where < 0) return {};
  const auto& in = graph.node(where).inputs;
  const int test = graph.maker(in[0], "IsNaN");
  if (test < 0) return after_test_of_scores(graph, where);
  if (graph.node(test).inputs[0] != in[2] || !graph.used_once(in[0]) ||
      !all_equal(graph, in[1], 0) || graph.is_output(in[2]) || graph.users(in[2]).size() != 2)
    return {};
  return {.softmax = graph.maker(in[2], "Softmax"), .zeros = true};
}

// The node Where(ReduceMax(keep, -1), product, 0) that alone takes `product`: PyTorch's rule that
// queries which see no key give zeros, written by the mask. -1: there is none.
int zeros_after(const Rewriter& graph, ValueId product, ValueId keep) {
  if (keep == kNone || !graph.used_once(product)) return -1;
  const int where = graph.users(product)[0];
  if (!graph.is(where, "Where")) return -1;
  const auto& in = graph.node(where).inputs;
  const int any = graph.maker(in[0], "ReduceMax");
  if (in[1] != product || !all_equal(graph, in[2], 0) || any < 0 ||
      graph.shape(graph.node(where).outputs[0]) != graph.shape(product) ||
      graph.node(any).inputs[0] != keep) {
    return -1;
  }
  Shape one_key = graph.shape(keep);
  one_key.back() = 1;
  return graph.shape(keep).back() > 1 && graph.shape(in[0]) == one_key ? where : -1;
}

bool only_here(const Rewriter& graph, ValueId id) {
  return graph.constant(id) == nullptr && graph.used_once(id);
}

// A product, times scalars. Nothing when `id` is something else, or others use what would vanish.
std::optional<Scores> scaled_product(const Rewriter& graph, ValueId id) {
  double scale = 1;
  while (only_here(graph, id)) {
    if (const int n = graph.maker(id, "MatMul"); n >= 0) {
      const Node& product = graph.node(n);
      return Scores{.q = product.inputs[0], .k_transposed = product.inputs[1], .scale = scale};
    }
    const int mul = graph.maker(id, "Mul"), div = graph.maker(id, "Div");
    const auto factor =
        mul >= 0 || div >= 0 ? with_scalar(graph, std::max(mul, div)) : std::nullopt;
    if (!factor) break;
    scale *= mul >= 0 ? factor->c : 1 / factor->c;
    id = factor->x;
  }
  return std::nullopt;
}

// The same under at most one mask. `tested`: what looks at the scores besides vanishes too.
std::optional<Scores> scores_of(const Rewriter& graph, ValueId id, bool tested) {
  if (!tested && !only_here(graph, id)) return std::nullopt;
  if (const int n = graph.maker(id, "Add"); n >= 0) {
    for (size_t side = 0; side < 2; ++side) {
      const ValueId inner = graph.node(n).inputs[side];
      if (graph.shape(inner) != graph.shape(id)) continue;
      auto scores = scaled_product(graph, inner);
      if (!scores) continue;
      scores->mask = graph.node(n).inputs[1 - side];
      return scores;
    }
    return std::nullopt;
  }
  if (const int n = graph.maker(id, "Where"); n >= 0) {
    const auto& in = graph.node(n).inputs;
    for (size_t side = 1; side <= 2; ++side) {
      const auto value = scalar(graph, in[3 - side]);
      if (!value || !(*value <= kMasked) || graph.shape(in[side]) != graph.shape(id)) continue;
      auto scores = scaled_product(graph, in[side]);
      if (!scores) continue;
      (side == 1 ? scores->keep : scores->drop) = in[0];
      scores->masked_value = *value;
      return scores;
    }
    return std::nullopt;
  }
  return scaled_product(graph, id);
}

struct Heads {
  int64_t batch = 1, heads = 1, length = 1, width = 1;  // logically [batch, heads, length, width]
};

// Rows [batch, length, *] of a value whose heads lie side by side in them.
struct Rows {
  ValueId id = kNone;
  int64_t offset = 0;
  double scale = 1;
};

ValueId reshape(Rewriter& graph, int anchor, ValueId x, Shape shape) {
  if (graph.shape(x) == shape) return x;
  const ValueId target = graph.add_constant("shape", Tensor::int64s(shape));
  const std::string name = graph.name(x) + ".reshaped";
  return graph.insert(anchor, "Reshape", {x, target}, {}, DType::kFloat32, std::move(shape), name);
}

ValueId transpose(Rewriter& graph, int anchor, ValueId x, const std::vector<int64_t>& perm) {
  Shape shape;
  for (int64_t axis : perm) shape.push_back(graph.shape(x)[static_cast<size_t>(axis)]);
  Attributes attributes;
  attributes.set("perm", perm);
  const std::string name = graph.name(x) + ".transposed";
  return graph.insert(anchor, "Transpose", {x}, attributes, DType::kFloat32, shape, name);
}

// `id` is [..., length, width], or with the last two swapped. Looks for rows it is a view of.
std::optional<Rows> find_rows(const Rewriter& graph, ValueId id, const Heads& h, bool swapped) {
  View view = trace_view(graph, id);
  if (view.shape.size() == 3) {
    view.shape.insert(view.shape.begin(), 1);
    view.strides.insert(view.strides.begin(), 1);
  }
  if (swapped) {
    std::swap(view.shape[2], view.shape[3]);
    std::swap(view.strides[2], view.strides[3]);
  }
  const int64_t count = element_count(graph.shape(view.source));
  if (count % (h.batch * h.length) != 0) return std::nullopt;
  const int64_t row = count / (h.batch * h.length);
  const int64_t wanted[] = {h.length * row, h.width, row, 1};
  for (size_t i = 0; i < 4; ++i) {
    if (view.shape[i] != 1 && view.strides[i] != wanted[i]) return std::nullopt;
  }
  if (view.offset + h.heads * h.width > row) return std::nullopt;
  return Rows{view.source, view.offset, view.scale};
}

// The same by moving the data.
ValueId make_rows(Rewriter& graph, int anchor, ValueId id, const Heads& h, bool swapped) {
  const Shape four = swapped ? Shape{h.batch, h.heads, h.width, h.length}
                             : Shape{h.batch, h.heads, h.length, h.width};
  const std::vector<int64_t> perm =
      swapped ? std::vector<int64_t>{0, 3, 1, 2} : std::vector<int64_t>{0, 2, 1, 3};
  const ValueId moved = transpose(graph, anchor, reshape(graph, anchor, id, four), perm);
  return reshape(graph, anchor, moved, {h.batch, h.length, h.heads * h.width});
}

// A dense [batch, heads, length, width], as caches lie in memory.
struct Cache {
  ValueId id = kNone;
  int64_t heads = 1;  // groups of heads may share one
  double scale = 1;
};

// `id` is [batch, heads, length, width], or with the last two swapped. Looks for a dense value that
// it is a view of, also through repetitions of heads.
std::optional<Cache> find_cache(const Rewriter& graph, ValueId id, const Heads& h, bool swapped) {
  View view = trace_view(graph, id);
  if (view.shape.size() == 3) {
    view.shape.insert(view.shape.begin(), 1);
    view.strides.insert(view.strides.begin(), 1);
  }
  if (swapped) {
    std::swap(view.shape[2], view.shape[3]);
    std::swap(view.strides[2], view.strides[3]);
  }
  const auto dense = [](const View& v, const Shape& shape) {
    const auto strides = row_major_strides(shape);
    for (size_t i = 0; i < shape.size(); ++i) {
      if (v.shape[i] != shape[i] || (shape[i] != 1 && v.strides[i] != strides[i])) return false;
    }
    return v.offset == 0;
  };
  const Shape full{h.batch, h.heads, h.length, h.width};
  if (!dense(view, full)) return std::nullopt;
  Cache cache{.id = view.source, .heads = h.heads, .scale = view.scale};
  if (element_count(graph.shape(view.source)) != element_count(full)) return std::nullopt;
  const int expand = graph.maker(view.source, "Expand");
  const Shape& repeated = graph.shape(view.source);
  if (expand < 0 || repeated.size() != 5) return cache;
  const ValueId one = graph.node(expand).inputs[0];
  const Shape wanted{h.batch, repeated[1], 1, h.length, h.width};
  const View before = trace_view(graph, one);
  if (graph.shape(one) != wanted || !dense(before, wanted) ||
      element_count(graph.shape(before.source)) != element_count(wanted)) {
    return cache;
  }
  return Cache{.id = before.source, .heads = repeated[1], .scale = cache.scale * before.scale};
}

ValueId where_mask(Rewriter& graph, int anchor, const Scores& scores) {
  // With the lowest float a row that is masked throughout stays uniform, as it is with Where.
  const double low =
      std::isinf(scores.masked_value) ? scores.masked_value : std::numeric_limits<float>::lowest();
  const ValueId zero = graph.add_constant("zero", Tensor::scalar(0.0f));
  const ValueId masked = graph.add_constant("masked", Tensor::scalar(static_cast<float>(low)));
  const ValueId condition = scores.keep != kNone ? scores.keep : scores.drop;
  const std::vector<ValueId> inputs = scores.keep != kNone
                                          ? std::vector<ValueId>{condition, zero, masked}
                                          : std::vector<ValueId>{condition, masked, zero};
  const Shape shape = graph.shape(condition);
  return graph.insert(anchor, "Where", inputs, {}, DType::kFloat32, shape,
                      graph.name(condition) + ".mask");
}

// n is the product with v.
void fuse(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const auto [softmax, zeros, tested] = softmax_of(graph, node.inputs[0]);
  if (softmax < 0) return;
  const Shape y = graph.shape(node.outputs[0]);
  const size_t rank = y.size();
  if (rank < 3 || rank > 4 || graph.dtype(node.outputs[0]) != DType::kFloat32) return;
  const int64_t axis = graph.node(softmax).attributes.integer("axis", -1);
  if (normalize_axis(axis, static_cast<int64_t>(rank), "axis") != static_cast<int64_t>(rank) - 1)
    return;
  auto scores = scores_of(graph, graph.node(softmax).inputs[0], tested);
  if (!scores) return;
  if (scores->mask != kNone && graph.dtype(scores->mask) != DType::kFloat32) return;

  const ValueId v = node.inputs[1];
  const Shape q_shape = graph.shape(scores->q), k_shape = graph.shape(scores->k_transposed);
  const Shape v_shape = graph.shape(v);
  if (q_shape.size() != rank || k_shape.size() != rank || v_shape.size() != rank) return;
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (q_shape[i] != k_shape[i] || q_shape[i] != v_shape[i])
      return;  // no shared or repeated heads
  }
  // The node counts heads and their width, and rows are found by division: none may be zero.
  if (element_count(q_shape) == 0 || element_count(k_shape) == 0 || element_count(v_shape) == 0)
    return;
  Heads q_heads{.batch = rank == 4 ? q_shape[0] : 1,
                .heads = q_shape[rank - 3],
                .length = q_shape[rank - 2],
                .width = q_shape[rank - 1]};
  Heads k_heads = q_heads;
  k_heads.length = k_shape[rank - 1];
  if (v_shape[rank - 1] != q_heads.width) return;
  if (!context.allow("attention", graph.node(softmax).name)) return;
  // Only -inf hides a key from a query that sees no other one.
  const int guard =
      std::isinf(scores->masked_value) ? zeros_after(graph, node.outputs[0], scores->keep) : -1;

  const auto rows = [&](ValueId id, const Heads& heads, bool swapped, bool scaled) {
    auto found = find_rows(graph, id, heads, swapped);
    if (!found || (!scaled && found->scale != 1)) {
      return Rows{.id = make_rows(graph, n, id, heads, swapped)};
    }
    const int64_t row = element_count(graph.shape(found->id)) / (heads.batch * heads.length);
    found->id = reshape(graph, n, found->id, {heads.batch, heads.length, row});
    return *found;
  };
  const Rows q = rows(scores->q, q_heads, false, true);
  // Caches stay where they are; what is rows already stays rows.
  const bool are_rows = find_rows(graph, scores->k_transposed, k_heads, true).has_value() ||
                        find_rows(graph, v, k_heads, false).has_value();
  const auto key_cache = find_cache(graph, scores->k_transposed, k_heads, true);
  const auto value_cache = find_cache(graph, v, k_heads, false);
  const bool caches = key_cache && value_cache && key_cache->heads == value_cache->heads &&
                      value_cache->scale == 1 &&
                      (!are_rows || graph.maker(key_cache->id, "stretto.Append") >= 0);
  const auto cache = [&](const Cache& c) {
    return Rows{
        .id = reshape(graph, n, c.id, {k_heads.batch, c.heads, k_heads.length, k_heads.width}),
        .scale = c.scale};
  };
  const Rows k = caches ? cache(*key_cache) : rows(scores->k_transposed, k_heads, true, true);
  const Rows values = caches ? cache(*value_cache) : rows(v, k_heads, false, false);
  std::vector<ValueId> inputs{q.id, k.id, values.id};
  if (scores->mask != kNone) inputs.push_back(scores->mask);
  if (scores->keep != kNone || scores->drop != kNone)
    inputs.push_back(where_mask(graph, n, *scores));
  Attributes attributes;
  attributes.set("heads", q_heads.heads);
  attributes.set("head_dim", q_heads.width);
  attributes.set("scale", scores->scale * q.scale * k.scale);
  attributes.set("q_offset", q.offset);
  attributes.set("k_offset", k.offset);
  attributes.set("v_offset", values.offset);
  if (zeros || guard >= 0) attributes.set("masked_zero", int64_t{1});
  const Shape packed{q_heads.batch, q_heads.length, q_heads.heads * q_heads.width};
  const ValueId attention = graph.insert(n, "stretto.Attention", std::move(inputs), attributes,
                                         DType::kFloat32, packed, node.name + ".attention");
  // Back to [batch, heads, length, width], or without the batch of one; the transpose that follows
  // in the model undoes this.
  Shape unpacked{q_heads.batch, q_heads.length, q_heads.heads, q_heads.width};
  std::vector<int64_t> perm{0, 2, 1, 3};
  if (rank == 3) {
    unpacked.erase(unpacked.begin());
    perm = {1, 0, 2};
  }
  const ValueId split = reshape(graph, n, attention, unpacked);
  Attributes permuted;
  permuted.set("perm", perm);
  graph.become(guard >= 0 ? guard : n, "Transpose", {split}, std::move(permuted));
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "MatMul")) fuse(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kFuseAttention{.name = "fuse-attention",
                          .summary = "softmax(q k^T) v as one node on rows of packed heads",
                          .rules = kRules,
                          .run = run};

}  // namespace stretto::passes
