// Attention and RotaryEmbedding. Shapes are known here, so caches, groups of heads and windows are
// plain concatenations, repetitions and constant masks.
#include <cmath>
#include <limits>

#include "stretto/base/error.h"
#include "stretto/import/onnx/attending.h"
#include "stretto/import/onnx/compose.h"
#include "stretto/import/onnx/upgrade_functions.h"

namespace stretto::onnx {
namespace {

using Id = ir::ValueId;

// Each head `times` times in a row.
Id repeat_heads(Parts& parts, Id x, int64_t times) {
  if (times == 1) return x;
  const Shape s = parts.shape(x);
  Id y = parts.reshape(x, {s[0], s[1], 1, s[2], s[3]});
  y = parts.op("Expand", {y, parts.integers({s[0], s[1], times, s[2], s[3]})});
  return parts.reshape(y, {s[0], s[1] * times, s[2], s[3]});
}

// Where keys may be seen, as bools that broadcast to [b, heads, queries, keys]; kNone: everywhere.
struct Visible {
  Parts& parts;
  Id ids = ir::kNone;

  void also(Id condition) {
    ids = ids == ir::kNone ? condition : parts.op("And", {ids, condition});
  }
};

// The same offset of the queries for all of the batch.
struct BoundsMask {
  Tensor allowed;
  bool blind = false;  // some query sees no key
};

BoundsMask bounds_mask(const Bounds& bounds, int64_t offset, int64_t queries, int64_t keys) {
  BoundsMask mask{Tensor(DType::kBool, {queries, keys})};
  auto values = mask.allowed.mutable_values<bool>();
  for (int64_t i = 0; i < queries; ++i) {
    bool sees = false;
    for (int64_t j = 0; j < keys; ++j) {
      values[i * keys + j] = bounds.allows(i + offset - j);
      sees = sees || values[i * keys + j];
    }
    mask.blind = mask.blind || !sees;
  }
  return mask;
}

// Offsets that depend on the lengths of the batch's samples, an input.
void see_within_bounds(Parts& parts, const Bounds& bounds, Id lengths, int64_t queries,
                       int64_t keys, Visible& visible) {
  Tensor steps(DType::kInt64, {queries, keys});
  auto values = steps.mutable_values<int64_t>();
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) values[i * keys + j] = i - j - queries;
  }
  const Id at = parts.reshape(lengths, {parts.shape(lengths)[0], 1, 1, 1});
  const Id distance = parts.add(at, parts.constant(steps));
  const auto limit = [&](int64_t value) { return parts.constant(Tensor::scalar<int64_t>(value)); };
  if (bounds.causal) visible.also(parts.op("GreaterOrEqual", {distance, limit(0)}));
  if (bounds.left >= 0) visible.also(parts.op("LessOrEqual", {distance, limit(bounds.left)}));
  if (bounds.right >= 0) visible.also(parts.op("GreaterOrEqual", {distance, limit(-bounds.right)}));
}

}  // namespace

Id split_heads(Parts& parts, Id x, int64_t heads) {
  const Shape s = parts.shape(x);
  return parts.transpose(parts.reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

Id join_heads(Parts& parts, Id x) {
  const Shape s = parts.shape(x);
  return parts.reshape(parts.transpose(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

Attended attend(Parts& parts, const Attending& a) {
  Id q = a.q, k = a.k, v = a.v;
  const Shape qs = parts.shape(q), ks = parts.shape(k);
  const int64_t queries = qs[2], keys = ks[2];
  k = repeat_heads(parts, k, qs[1] / ks[1]);
  v = repeat_heads(parts, v, qs[1] / ks[1]);
  // ONNX splits the scale between Q and K, which keeps float16 finite.
  const Id root = parts.number(std::sqrt(a.scale), q);
  q = parts.multiply(q, root);
  k = parts.multiply(parts.transpose(k, {0, 1, 3, 2}), root);
  Id scores = parts.matmul(q, k);
  Id seen = scores;
  if (a.softcap > 0) {
    const Id limit = parts.number(a.softcap, scores);
    scores = parts.multiply(parts.op("Tanh", {parts.divide(scores, limit)}), limit);
  }
  if (a.shown == 1) seen = scores;

  Visible visible{parts, a.visible};
  Id bias = a.bias;
  bool blind = a.blind;
  if (a.lengths != ir::kNone) {
    see_within_bounds(parts, a.bounds, a.lengths, queries, keys, visible);
    std::vector<int64_t> places(static_cast<size_t>(keys));
    for (int64_t j = 0; j < keys; ++j) places[j] = j;
    const Id padded = parts.reshape(a.lengths, {parts.shape(a.lengths)[0], 1, 1, 1});
    visible.also(parts.op("Less", {parts.integers(places), padded}));
  } else if (!a.bounds.open()) {
    const BoundsMask mask = bounds_mask(a.bounds, a.past, queries, keys);
    blind = blind || mask.blind;
    visible.also(parts.constant(mask.allowed));
  }
  if (visible.ids != ir::kNone) {
    const Id hidden =
        parts.op("Where", {visible.ids, parts.number(0, scores),
                           parts.number(-std::numeric_limits<double>::infinity(), scores)});
    bias = bias == ir::kNone ? hidden : parts.add(bias, hidden);
  }
  if (bias != ir::kNone) scores = parts.add(scores, bias);
  if (a.shown == 2) seen = scores;

  const Shape all = parts.shape(scores);
  if (a.sink != ir::kNone) {
    const Id column = parts.op("Expand", {parts.reshape(a.sink, {1, qs[1], 1, 1}),
                                          parts.integers({all[0], all[1], all[2], 1})});
    scores = parts.concat({scores, column}, 3);
  }
  // A query that sees no key: the softmax is NaN, and ONNX wants zeros.
  Id weights = parts.op("Softmax", {scores}, attribute("axis", int64_t{-1}));
  if (a.sink != ir::kNone) {
    weights = parts.slice(weights, 3, 0, all[3]);
  } else if (blind) {
    const Id top = parts.reduce("ReduceMax", parts.cast(scores, DType::kFloat32), {-1});
    const Id none =
        parts.op("Equal", {top, parts.number(-std::numeric_limits<double>::infinity(), top)});
    weights = parts.op("Where", {none, parts.number(0, weights), weights});
  }
  if (a.shown == 3) seen = weights;
  return {parts.matmul(weights, v), seen};
}

void compose_attention(PendingNode& node) {
  enum Input : size_t { kQ, kK, kV, kMask, kPastKey, kPastValue, kLengths };
  const auto number_of = [&](std::string_view name, int64_t fallback) {
    return node.attributes.integer(name, fallback);
  };
  check(node, node.has_input(kQ) && node.has_input(kK) && node.has_input(kV),
        "expected Q, K and V");
  check(node, node.has_input(kPastKey) == node.has_input(kPastValue),
        "past_key and past_value must be given together");
  check(node, !(node.has_input(kPastKey) && node.has_input(kLengths)),
        "nonpad_kv_seqlen and past_key exclude each other");
  Parts parts(node);
  Id q = node.inputs[kQ], k = node.inputs[kK], v = node.inputs[kV];
  const DType dtype = parts.dtype(q);
  const size_t rank = parts.shape(q).size();
  check(node,
        (rank == 3 || rank == 4) && parts.shape(k).size() == rank && parts.shape(v).size() == rank,
        "expected Q, K and V of 3 or 4 dimensions each");
  if (rank == 3) {
    const int64_t q_heads = number_of("q_num_heads", 0), kv_heads = number_of("kv_num_heads", 0);
    check(node,
          q_heads > 0 && kv_heads > 0 && parts.shape(q)[2] % q_heads == 0 &&
              parts.shape(k)[2] % kv_heads == 0 && parts.shape(v)[2] % kv_heads == 0,
          "q_num_heads and kv_num_heads must divide the last dimensions");
    q = split_heads(parts, q, q_heads);
    k = split_heads(parts, k, kv_heads);
    v = split_heads(parts, v, kv_heads);
  }
  int64_t past = 0;
  if (node.has_input(kPastKey)) {
    const Shape& before = parts.shape(node.inputs[kPastKey]);
    check(node, before.size() == 4, "expected past_key of 4 dimensions");
    past = before[2];
    k = parts.concat({node.inputs[kPastKey], k}, 2);
    v = parts.concat({node.inputs[kPastValue], v}, 2);
  }
  const Id present_key = k, present_value = v;
  const Shape qs = parts.shape(q), ks = parts.shape(k), vs = parts.shape(v);
  check(node, qs[3] == ks[3] && ks[2] == vs[2] && ks[1] == vs[1] && ks[1] > 0 && qs[1] % ks[1] == 0,
        "the shapes of Q, K and V do not fit");
  const int64_t keys = ks[2];
  Attending a{.q = q,
              .k = k,
              .v = v,
              .scale = node.attributes.number("scale", 1 / std::sqrt(static_cast<double>(qs[3]))),
              .softcap = node.attributes.number("softcap", 0),
              .bounds = {.causal = number_of("is_causal", 0) != 0,
                         .left = number_of("left_window_size", -1),
                         .right = number_of("right_window_size", -1)},
              .past = past,
              .blind = node.has_input(kMask) || node.has_input(kLengths),
              .shown = number_of("qk_matmul_output_mode", 0)};
  if (node.has_input(kMask)) {
    Id mask = node.inputs[kMask];
    const Shape shape = parts.shape(mask);
    check(node, !shape.empty() && shape.back() <= keys, "attn_mask does not fit the keys");
    const bool flags = parts.dtype(mask) == DType::kBool;
    if (shape.back() < keys && shape.back() > 1) {
      std::vector<int64_t> pads(2 * shape.size(), 0);
      pads.back() = keys - shape.back();
      const double hidden = flags ? 0 : -std::numeric_limits<double>::infinity();
      mask = parts.op("Pad", {mask, parts.integers(pads), parts.number(hidden, mask)});
    }
    (flags ? a.visible : a.bias) = flags ? mask : parts.cast(mask, dtype);
  }
  if (node.has_input(kLengths)) {
    a.lengths = node.inputs[kLengths];
    check(node, parts.shape(a.lengths) == Shape{qs[0]},
          "expected a value of nonpad_kv_seqlen for each of the batch");
  }
  const auto [y, seen] = attend(parts, a);
  node.results = {rank == 3 ? join_heads(parts, y) : y, present_key, present_value, seen};
}

void compose_flex_attention(PendingNode& node) {
  check(node, node.has_input(0) && node.has_input(1) && node.has_input(2), "expected Q, K and V");
  type_names(node);
  Parts parts(node);
  Id q = node.inputs[0], k = node.inputs[1], v = node.inputs[2];
  const Shape qs = parts.shape(q), ks = parts.shape(k), vs = parts.shape(v);
  const bool fits = qs.size() == 4 && ks.size() == 4 && vs.size() == 4 && qs[3] == ks[3] &&
                    ks[2] == vs[2] && ks[1] == vs[1] && ks[1] > 0 && qs[1] % ks[1] == 0;
  check(node, fits, "the shapes of Q, K and V do not fit");
  k = repeat_heads(parts, k, qs[1] / ks[1]);
  v = repeat_heads(parts, v, qs[1] / ks[1]);
  const DType dtype = parts.dtype(v);
  const std::string named = node.attributes.text("softmax_precision", "");
  const DType precision = !named.empty()             ? parse_dtype(named)
                          : dtype == DType::kFloat64 ? DType::kFloat64
                                                     : DType::kFloat32;
  const double scale = node.attributes.number("scale", 1 / std::sqrt(static_cast<double>(qs[3])));
  const Id root = parts.number(std::sqrt(scale), q);
  Id scores =
      parts.matmul(parts.multiply(q, root), parts.multiply(parts.transpose(k, {0, 1, 3, 2}), root));
  scores = parts.cast(scores, precision);
  const auto modified = [&](const char* graph, Id x) {
    if (!node.graphs.contains(graph)) return x;
    const std::vector<Id> outputs = node.inline_graph(graph, {x});
    check(node, outputs.size() == 1 && parts.shape(outputs[0]) == parts.shape(x),
          "a graph that modifies scores must have one output of its input's shape");
    return parts.cast(outputs[0], precision);
  };
  scores = modified("score_mod", scores);
  Id weights = parts.op("Softmax", {scores}, attribute("axis", int64_t{-1}));
  weights = modified("prob_mod", weights);
  node.results = {parts.cast(parts.matmul(weights, parts.cast(v, precision)), dtype)};
}

void compose_rotary_embedding(PendingNode& node) {
  check(node, node.has_input(0) && node.has_input(1) && node.has_input(2),
        "expected X, cos_cache and sin_cache");
  Parts parts(node);
  Id x = node.inputs[0];
  const Shape original = parts.shape(x);
  check(node, original.size() == 3 || original.size() == 4, "expected X of 3 or 4 dimensions");
  // As [batch, sequence, heads, size].
  if (original.size() == 4) {
    x = parts.transpose(x, {0, 2, 1, 3});
  } else {
    const int64_t heads = node.attributes.integer("num_heads", 0);
    check(node, heads > 0 && original[2] % heads == 0,
          "num_heads must divide the last dimension of X");
    x = parts.reshape(x, {original[0], original[1], heads, original[2] / heads});
  }
  const Shape s = parts.shape(x);
  int64_t rotated = node.attributes.integer("rotary_embedding_dim", 0);
  if (rotated == 0) rotated = s[3];
  check(node, rotated % 2 == 0 && rotated > 0 && rotated <= s[3],
        "rotary_embedding_dim must be even and within the head");
  const bool interleaved = node.attributes.integer("interleaved", 0) != 0;
  const auto cache = [&](size_t input) {
    Id id = node.inputs[input];
    if (node.has_input(3)) id = parts.op("Gather", {id, node.inputs[3]});
    const Shape shape = parts.shape(id);
    check(node, shape.size() == 3 && shape[2] == rotated / 2,
          "the caches do not have half of the rotated columns");
    return parts.reshape(id, {shape[0], shape[1], 1, shape[2]});
  };
  const Id cosine = cache(1), sine = cache(2);
  const Id turned = rotated == s[3] ? x : parts.slice(x, 3, 0, rotated);
  const Id a =
      interleaved ? parts.slice(turned, 3, 0, rotated, 2) : parts.slice(turned, 3, 0, rotated / 2);
  const Id b = interleaved ? parts.slice(turned, 3, 1, rotated, 2)
                           : parts.slice(turned, 3, rotated / 2, rotated);
  Id real = parts.subtract(parts.multiply(cosine, a), parts.multiply(sine, b));
  Id imaginary = parts.add(parts.multiply(sine, a), parts.multiply(cosine, b));
  Id y = ir::kNone;
  if (interleaved) {
    const Shape column{s[0], s[1], s[2], rotated / 2, 1};
    y = parts.concat({parts.reshape(real, column), parts.reshape(imaginary, column)}, 4);
    y = parts.reshape(y, {s[0], s[1], s[2], rotated});
  } else {
    y = parts.concat({real, imaginary}, 3);
  }
  if (rotated < s[3]) y = parts.concat({y, parts.slice(x, 3, rotated, s[3])}, 3);
  y = original.size() == 4 ? parts.transpose(y, {0, 2, 1, 3}) : parts.reshape(y, original);
  node.results = {y};
}

}  // namespace stretto::onnx
