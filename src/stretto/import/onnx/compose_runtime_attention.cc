// Attention of ONNX Runtime (domain com.microsoft) with its many forms of masks and caches.
#include <cmath>

#include "stretto/base/error.h"
#include "stretto/import/onnx/attending.h"
#include "stretto/import/onnx/compose.h"

namespace stretto::onnx {
namespace {

using Id = ir::ValueId;

double scale_of(const PendingNode& node, int64_t head) {
  const double given = node.attributes.number("scale", 0);
  return given == 0 ? 1 / std::sqrt(static_cast<double>(head)) : given;
}

int64_t heads_of(const PendingNode& node, std::string_view name, int64_t fallback = 0) {
  const int64_t heads = node.attributes.integer(name, fallback);
  if (heads < 1) throw_invalid("{} \"{}\": {} must be positive", node.op, node.name, name);
  return heads;
}

void refuse(const PendingNode& node, size_t input, std::string_view what) {
  if (node.has_input(input)) node.unsupported(fmt::format("{} is not supported", what));
}

Id plus(Parts& parts, Id a, Id b) { return a == ir::kNone ? b : parts.add(a, b); }

Id numbers_to(Parts& parts, int64_t count) {
  std::vector<int64_t> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[i] = i;
  return parts.integers(values);
}

// A mask in one of the forms that MultiHeadAttention and Attention take, for so many keys.
void add_mask(Parts& parts, const PendingNode& node, Id mask, int64_t keys, Attending& a) {
  const Shape shape = parts.shape(mask), q = parts.shape(a.q);
  const int64_t batch = q[0], queries = q[2];
  if (shape == Shape{batch} || shape == Shape{2 * batch}) {  // the end of each sample, its begin
    const Id places = parts.reshape(numbers_to(parts, keys), {1, 1, 1, keys});
    const auto column = [&](int64_t from) {
      const Id part = parts.slice(parts.cast(mask, DType::kInt64), 0, from, from + batch);
      return parts.reshape(part, {batch, 1, 1, 1});
    };
    a.visible = parts.op("Less", {places, column(0)});
    if (shape[0] == 2 * batch) {
      const Id begun = parts.op("GreaterOrEqual", {places, column(batch)});
      a.visible = parts.op("And", {a.visible, begun});
    }
    a.blind = true;
    return;
  }
  Shape to;
  if (shape == Shape{batch, keys}) {
    to = {batch, 1, 1, keys};
  } else if (shape == Shape{batch, queries, keys}) {
    to = {batch, 1, queries, keys};
  } else if (shape.size() == 4 && shape[0] == batch && shape[1] == 1 && shape[2] == shape[3] &&
             shape[3] >= keys) {  // of the longest sequence: the rows of the last queries
    mask = parts.slice(parts.slice(mask, 2, keys - queries, keys), 3, 0, keys);
    to = {batch, 1, queries, keys};
  } else {
    node.unsupported(fmt::format("a mask of shape {} is not supported", shape_text(shape)));
  }
  const double filter = node.attributes.number("mask_filter_value", -10000.0);
  const Id flags = parts.cast(parts.reshape(mask, to), DType::kBool);
  a.bias = plus(parts, a.bias,
                parts.op("Where", {flags, parts.number(0, a.q), parts.number(filter, a.q)}));
}

// Appends to a cache; returns what there is now.
Id appended(Parts& parts, Id past, Id now) {
  return past == ir::kNone || parts.shape(past)[2] == 0 ? now : parts.concat({past, now}, 2);
}

// Part `i` of [b, s, heads, parts, d], as [b, heads, s, d].
Id packed_part(Parts& parts, Id packed, int64_t i) {
  const Shape s = parts.shape(packed);
  const Id part = parts.reshape(parts.slice(packed, 3, i, i + 1), {s[0], s[1], s[2], s[4]});
  return parts.transpose(part, {0, 2, 1, 3});
}

}  // namespace

void compose_multi_head_attention(PendingNode& node) {
  enum Input : size_t { kQuery, kKey, kValue, kBias, kPadding, kScores, kPastKey, kPastValue };
  expect_inputs(node, 1);
  refuse(node, 8, "a shared buffer of keys and values (past_sequence_length)");
  refuse(node, 9, "beam search in the operator (cache_indirection)");
  check(node, node.has_input(kPastKey) == node.has_input(kPastValue),
        "past_key and past_value must be given together");
  Parts parts(node);
  const int64_t heads = heads_of(node, "num_heads");
  Attending a{};
  // A part of the bias, behind `from` elements.
  const auto biased = [&](Id x, int64_t from) {
    if (!node.has_input(kBias)) return x;
    const int64_t size = parts.shape(x).back();
    return parts.add(x, parts.slice(node.inputs[kBias], 0, from, from + size));
  };
  const Shape qs = parts.shape(node.inputs[kQuery]);
  if (qs.size() == 5) {
    check(node, qs[2] == heads && qs[3] == 3,
          "expected a packed query of shape [b, s, heads, 3, d]");
    Id packed = node.inputs[kQuery];
    if (node.has_input(kBias)) {
      const Id bias = parts.reshape(node.inputs[kBias], {1, 1, 3, heads, qs[4]});
      packed = parts.add(packed, parts.transpose(bias, {0, 1, 3, 2, 4}));
    }
    a.q = packed_part(parts, packed, 0);
    a.k = packed_part(parts, packed, 1);
    a.v = packed_part(parts, packed, 2);
  } else {
    check(node, qs.size() == 3 && qs[2] % heads == 0 && node.has_input(kKey),
          "expected a query of shape [batch, length, heads * size], and a key");
    const Shape ks = parts.shape(node.inputs[kKey]);
    a.q = split_heads(parts, biased(node.inputs[kQuery], 0), heads);
    if (ks.size() == 5) {
      check(node, ks[2] == heads && ks[3] == 2 && !node.has_input(kBias),
            "expected a packed key of shape [b, s, heads, 2, d], and no bias");
      a.k = packed_part(parts, node.inputs[kKey], 0);
      a.v = packed_part(parts, node.inputs[kKey], 1);
    } else {
      check(node, node.has_input(kValue), "expected a value");
      const bool split = ks.size() == 4;  // of another attention, by heads already
      check(node, split || (ks.size() == 3 && ks[2] == qs[2]), "the key does not fit the query");
      const Id value = node.inputs[kValue];
      a.k = split ? node.inputs[kKey] : split_heads(parts, biased(node.inputs[kKey], qs[2]), heads);
      a.v = split ? value : split_heads(parts, biased(value, 2 * qs[2]), heads);
    }
  }
  if (node.has_input(kPastKey)) {
    a.past = parts.shape(node.inputs[kPastKey])[2];
    a.k = appended(parts, node.inputs[kPastKey], a.k);
    a.v = appended(parts, node.inputs[kPastValue], a.v);
  }
  a.scale = scale_of(node, parts.shape(a.q)[3]);
  a.bounds.causal = node.attributes.integer("unidirectional", 0) != 0;
  if (node.has_input(kScores)) a.bias = node.inputs[kScores];
  if (node.has_input(kPadding)) {
    add_mask(parts, node, node.inputs[kPadding], parts.shape(a.k)[2], a);
  }
  const Attended made = attend(parts, a);
  node.results = {join_heads(parts, made.y), a.k, a.v};
  node.dropped_outputs[3] = "the scores of MultiHeadAttention are not supported";
}

void compose_runtime_attention(PendingNode& node) {
  enum Input : size_t { kX, kWeights, kBias, kMask, kPast, kScores };
  expect_inputs(node, 2);
  refuse(node, 6, "a shared buffer of keys and values (past_sequence_length)");
  if (node.attributes.integer("do_rotary", 0) != 0) node.unsupported("do_rotary is not supported");
  Parts parts(node);
  const int64_t heads = heads_of(node, "num_heads");
  const Shape x = parts.shape(node.inputs[kX]), w = parts.shape(node.inputs[kWeights]);
  check(node, x.size() == 3 && w.size() == 2 && w[0] == x[2],
        "expected an input of shape [batch, length, size] and weights of shape [size, sizes]");
  const auto sizes = node.attributes.integers("qkv_hidden_sizes", {w[1] / 3, w[1] / 3, w[1] / 3});
  check(node,
        sizes.size() == 3 && sizes[0] == sizes[1] && sizes[0] + sizes[1] + sizes[2] == w[1] &&
            sizes[0] % heads == 0 && sizes[2] % heads == 0,
        "qkv_hidden_sizes do not fit the weights");
  Id all = parts.matmul(node.inputs[kX], node.inputs[kWeights]);
  if (node.has_input(kBias)) all = parts.add(all, node.inputs[kBias]);
  const auto part = [&](int64_t from, int64_t size) {
    return split_heads(parts, parts.slice(all, 2, from, from + size), heads);
  };
  Attending a{.q = part(0, sizes[0]),
              .k = part(sizes[0], sizes[1]),
              .v = part(2 * sizes[0], sizes[2]),
              .scale = scale_of(node, sizes[0] / heads)};
  if (node.has_input(kPast)) {
    const Shape past = parts.shape(node.inputs[kPast]);
    check(node, past.size() == 5 && past[0] == 2, "expected a past of shape [2, b, heads, s, d]");
    const auto half = [&](int64_t i) {
      return parts.reshape(parts.slice(node.inputs[kPast], 0, i, i + 1),
                           {past[1], past[2], past[3], past[4]});
    };
    a.past = past[3];
    a.k = appended(parts, half(0), a.k);
    a.v = appended(parts, half(1), a.v);
  }
  a.bounds.causal = node.attributes.integer("unidirectional", 0) != 0;
  if (node.has_input(kScores)) a.bias = node.inputs[kScores];
  if (node.has_input(kMask)) add_mask(parts, node, node.inputs[kMask], parts.shape(a.k)[2], a);
  node.results = {join_heads(parts, attend(parts, a).y)};
  if (node.output_count > 1) {
    const Shape k = parts.shape(a.k);
    const Shape one{1, k[0], k[1], k[2], k[3]};
    node.results.push_back(parts.concat({parts.reshape(a.k, one), parts.reshape(a.v, one)}, 0));
  }
}

void compose_runtime_rotary_embedding(PendingNode& node) {
  expect_inputs(node, 4);
  if (node.attributes.integer("is_packed_batching", 0) != 0)
    node.unsupported("is_packed_batching is not supported");
  if (node.attributes.number("scale", 1) != 1) node.unsupported("a scale is not supported");
  Parts parts(node);
  const Shape x = parts.shape(node.inputs[0]);
  check(node, x.size() == 3 || x.size() == 4, "expected an input of 3 or 4 dimensions");
  const int64_t batch = x[0], length = x.size() == 4 ? x[2] : x[1];
  Id positions = parts.cast(node.inputs[1], DType::kInt64);
  if (element_count(parts.shape(positions)) == 1) {  // of the first element
    positions = parts.add(parts.reshape(positions, {1, 1}),
                          parts.reshape(numbers_to(parts, length), {1, length}));
    positions = parts.op("Expand", {positions, parts.integers({batch, length})});
  }
  PendingNode inner = node;
  inner.inputs = {node.inputs[0], node.inputs[2], node.inputs[3], positions};
  inner.attributes = attribute("interleaved", node.attributes.integer("interleaved", 0));
  const int64_t half = parts.shape(node.inputs[2]).back();
  const int64_t rotated = node.attributes.integer("rotary_embedding_dim", 0);
  if (rotated > 0) inner.attributes.set("rotary_embedding_dim", rotated);
  if (x.size() == 3) {
    const int64_t heads = node.attributes.integer("num_heads", 0);
    inner.attributes.set("num_heads", heads > 0 ? heads : x[2] / (2 * half));
  }
  compose_rotary_embedding(inner);
  node.results = inner.results;
}

namespace {

// Keys and values of samples of several lengths: row j of a sample is of the past while j < its
// length, then of what is new. [b, heads, slots, d]
Id appended_by_length(Parts& parts, Id past, Id now, Id lengths, int64_t slots) {
  const Shape p = parts.shape(past), n = parts.shape(now);
  const Id places = parts.reshape(numbers_to(parts, slots), {1, 1, slots, 1});
  const Id start = parts.reshape(lengths, {n[0], 1, 1, 1});
  const auto number = [&](int64_t v) { return parts.constant(Tensor::scalar<int64_t>(v)); };
  const Id from_now = parts.add(parts.subtract(places, start), number(p[2]));
  const Id old = parts.op("Less", {places, start});
  const Id end = parts.add(start, number(n[2]));
  const Id fresh = parts.op("And", {parts.op("Not", {old}), parts.op("Less", {places, end})});
  const Id kept = parts.op("Min", {places, number(p[2] + n[2] - 1)});
  const Id index = parts.op("Where", {fresh, from_now, kept});
  const Id all = parts.op("Expand", {index, parts.integers({n[0], n[1], slots, n[3]})});
  return parts.op("GatherElements", {parts.concat({past, now}, 2), all},
                  attribute("axis", int64_t{2}));
}

}  // namespace

void compose_group_query_attention(PendingNode& node) {
  enum Input : size_t {
    kQuery,
    kKey,
    kValue,
    kPastKey,
    kPastValue,
    kLast,
    kTotal,
    kCosine,
    kSine,
    kPositions,
    kScores,
    kSink,
    kKeyScale,
    kValueScale,
    kQueryNorm,
    kKeyNorm,
    kQueryLengths
  };
  check(node, node.has_input(kQuery) && node.has_input(kLast), "expected a query and seqlens_k");
  check(node, node.has_input(kPastKey) == node.has_input(kPastValue),
        "past_key and past_value must be given together");
  refuse(node, kKeyScale, "a quantised cache (k_scale)");
  refuse(node, kValueScale, "a quantised cache (v_scale)");
  refuse(node, kQueryLengths, "query_seqlens");
  if (node.attributes.integer("sliding_window_cache", 0) != 0)
    node.unsupported("sliding_window_cache is not supported");
  Parts parts(node);
  const int64_t heads = heads_of(node, "num_heads"), kv_heads = heads_of(node, "kv_num_heads");
  const Shape qs = parts.shape(node.inputs[kQuery]);
  check(node, qs.size() == 3, "expected a query of shape [batch, length, size]");
  const int64_t batch = qs[0], length = qs[1];
  Attending a{};
  if (node.has_input(kKey)) {
    check(node, node.has_input(kValue) && qs[2] % heads == 0, "the query does not fit num_heads");
    a.q = split_heads(parts, node.inputs[kQuery], heads);
    a.k = split_heads(parts, node.inputs[kKey], kv_heads);
    a.v = split_heads(parts, node.inputs[kValue], kv_heads);
  } else {
    const int64_t head = qs[2] / (heads + 2 * kv_heads);
    check(node, head * (heads + 2 * kv_heads) == qs[2], "the packed query does not fit num_heads");
    const auto part = [&](int64_t from, int64_t count) {
      const Id slice = parts.slice(node.inputs[kQuery], 2, from * head, (from + count) * head);
      return split_heads(parts, slice, count);
    };
    a.q = part(0, heads);
    a.k = part(heads, kv_heads);
    a.v = part(heads + kv_heads, kv_heads);
  }
  if (node.has_input(kQueryNorm)) {
    const double both = node.attributes.number("qk_norm_epsilon", 1e-6f);
    const auto norm = [&](Id x, size_t weight, const char* epsilon) {
      return parts.op("RMSNormalization", {x, node.inputs[weight]},
                      attribute("epsilon", node.attributes.number(epsilon, both)));
    };
    a.q = norm(a.q, kQueryNorm, "q_norm_epsilon");
    a.k = norm(a.k, kKeyNorm, "k_norm_epsilon");
  }

  // The cache holds as many rows as there are, or more than that: then every sample has its length.
  const int64_t past = node.has_input(kPastKey) ? parts.shape(node.inputs[kPastKey])[2] : 0;
  const Tensor* known = node.has_input(kTotal) ? node.constant(kTotal) : nullptr;
  const int64_t total = known != nullptr ? known->as_int64s()[0] : past + length;
  const bool fits = total == past + length && (batch == 1 || past == 0);
  const Id lengths =
      parts.add(parts.cast(parts.reshape(node.inputs[kLast], {batch}), DType::kInt64),
                parts.constant(Tensor::scalar<int64_t>(1)));
  const Id before =
      parts.op("Max", {parts.subtract(lengths, parts.constant(Tensor::scalar(length))),
                       parts.constant(Tensor::scalar<int64_t>(0))});
  if (node.attributes.integer("do_rotary", 0) != 0) {
    check(node, node.has_input(kCosine) && node.has_input(kSine),
          "expected cos_cache and sin_cache");
    Id positions;
    if (node.has_input(kPositions) && past > 0) {
      positions = parts.cast(node.inputs[kPositions], DType::kInt64);
    } else if (fits) {
      std::vector<int64_t> values;
      for (int64_t i = 0; i < batch * length; ++i) values.push_back(past + i % length);
      positions = parts.constant(Tensor::of<int64_t>({batch, length}, values));
    } else {
      positions = parts.add(parts.reshape(before, {batch, 1}),
                            parts.reshape(numbers_to(parts, length), {1, length}));
    }
    const auto turned = [&](Id x) {
      PendingNode inner = node;
      inner.inputs = {x, node.inputs[kCosine], node.inputs[kSine], positions};
      inner.attributes = attribute("interleaved", node.attributes.integer("rotary_interleaved", 0));
      const int64_t rotated = 2 * parts.shape(node.inputs[kCosine]).back();
      inner.attributes.set("rotary_embedding_dim", rotated);
      compose_rotary_embedding(inner);
      return inner.results[0];
    };
    a.q = turned(a.q);
    a.k = turned(a.k);
  }
  a.bounds.causal = node.attributes.integer("causal", 1) != 0;
  const int64_t window = node.attributes.integer("local_window_size", -1);
  if (window >= 0) a.bounds.left = window - 1;
  if (fits) {
    a.past = past;
    if (past > 0) {
      a.k = appended(parts, node.inputs[kPastKey], a.k);
      a.v = appended(parts, node.inputs[kPastValue], a.v);
    }
  } else {
    const int64_t slots = total == past + length ? total : past;
    check(node, total <= slots, "total_sequence_length is larger than the cache");
    a.k = appended_by_length(parts, node.inputs[kPastKey], a.k, before, slots);
    a.v = appended_by_length(parts, node.inputs[kPastValue], a.v, before, slots);
    a.lengths = lengths;
    a.blind = true;
  }
  a.scale = scale_of(node, parts.shape(a.q)[3]);
  a.softcap = node.attributes.number("softcap", 0);
  if (node.has_input(kScores)) a.bias = node.inputs[kScores];
  if (node.has_input(kSink)) {
    a.sink = parts.cast(node.inputs[kSink], parts.dtype(a.q));
  } else if (node.attributes.integer("smooth_softmax", 0) > 0) {
    a.sink = parts.constant(Tensor(parts.dtype(a.q), {heads}));
  }
  node.results = {join_heads(parts, attend(parts, a).y), a.k, a.v};
  node.dropped_outputs[3] = "output_qk of GroupQueryAttention is not supported";
}

}  // namespace stretto::onnx
