// Operators of ONNX Runtime (domain com.microsoft) that take weights of 8 bits and give floats, as
// its dynamic quantiser and its optimiser write them.
#include <numeric>

#include "stretto/base/error.h"
#include "stretto/import/onnx/compose_quantized.h"
#include "stretto/import/onnx/upgrade_functions.h"

namespace stretto::onnx {
namespace {

using Id = ir::ValueId;

// y + input i where there is one.
Id with_bias(Parts& parts, const PendingNode& node, Id y, size_t i) {
  return node.has_input(i) ? parts.add(y, parts.cast(node.inputs[i], DType::kFloat32)) : y;
}

// Input `w` [directions, in, 4 * hidden] as LSTM has it: floats, [directions, 4 * hidden, in]. Its
// scales and zero points, one per direction or per direction and column, begin at input `scale`.
Id lstm_weight(Parts& parts, const PendingNode& node, size_t w, size_t scale) {
  const Shape shape = parts.shape(node.inputs[w]);
  check(node, shape.size() == 3,
        fmt::format("input {} must have 3 dimensions (directions, inputs, 4 * hidden), got {}", w,
                    shape_text(shape)));
  const int64_t count = element_count(parts.shape(node.inputs[scale]));
  const bool per_column = count == shape[0] * shape[2];
  check(node, per_column || count == shape[0],
        fmt::format("input {} must have a scale for each direction, or for each column, got {}",
                    scale, shape_text(parts.shape(node.inputs[scale]))));
  check(node, element_count(parts.shape(node.inputs[scale + 1])) == count,
        fmt::format("input {} must have as many zero points as there are scales", scale + 1));
  // One scale per column is one per block that is all of the inputs.
  const Shape scales = per_column ? Shape{shape[0], 1, shape[2]} : Shape{shape[0]};
  ir::Attributes attributes = attribute("axis", int64_t{per_column ? 1 : 0});
  if (per_column) attributes.set("block_size", shape[1]);
  const Id floats = parts.op("DequantizeLinear",
                             {node.inputs[w], parts.reshape(node.inputs[scale], scales),
                              parts.reshape(node.inputs[scale + 1], scales)},
                             attributes);
  return parts.transpose(floats, {0, 2, 1});
}

// Where keys may be seen, from a mask of ONNX Runtime's Attention, to broadcast to [batch, heads,
// queries, keys]: lengths [batch], or 1 and 0 [batch, keys] or [batch, queries, keys].
Id visible_keys(Parts& parts, const PendingNode& node, Id mask, int64_t batch, int64_t keys) {
  Shape shape = parts.shape(mask);
  if (shape == Shape{batch}) {
    std::vector<int64_t> places(static_cast<size_t>(keys));
    std::iota(places.begin(), places.end(), 0);
    return parts.op("Less", {parts.integers(places),
                             parts.reshape(parts.cast(mask, DType::kInt64), {batch, 1, 1, 1})});
  }
  if ((shape.size() != 2 && shape.size() != 3) || shape[0] != batch || shape.back() != keys) {
    node.unsupported(fmt::format("a mask of shape {}", shape_text(shape)));
  }
  shape.insert(shape.begin() + 1, 4 - shape.size(), 1);
  return parts.reshape(parts.cast(mask, DType::kBool), shape);
}

}  // namespace

Id product_scale(Parts& parts, const PendingNode& node, const Quantized& a, const Quantized& b) {
  check(node, element_count(parts.shape(a.scale)) == 1,
        "a scale for each row of the first matrix; one for all is supported");
  const Shape of_b = parts.shape(b.scale), matrix = parts.shape(b.values);
  const int64_t columns = matrix.empty() ? 1 : matrix.back();
  const bool one = element_count(of_b) == 1;
  check(node, one || (!of_b.empty() && of_b.back() == columns),
        fmt::format("expected one scale of the second matrix or {}, one for each column, got {}",
                    columns, shape_text(of_b)));
  const Id scale = parts.cast(one ? as_scalar(parts, b.scale) : b.scale, DType::kFloat32);
  return parts.multiply(parts.cast(as_scalar(parts, a.scale), DType::kFloat32), scale);
}

Id scaled_product(Parts& parts, const PendingNode& node, Quantized a, Quantized b, Id scale) {
  for (Quantized* factor : {&a, &b}) {
    if (factor->zero == ir::kNone) continue;
    const Shape zeros = parts.shape(factor->zero);
    if (element_count(zeros) == 1) {
      factor->zero = as_scalar(parts, factor->zero);
    } else {
      const Shape& matrix = parts.shape(factor->values);
      check(node,
            factor == &b && !matrix.empty() && !zeros.empty() && zeros.back() == matrix.back(),
            fmt::format("zero points of shape {} do not fit", shape_text(zeros)));
    }
  }
  return parts.multiply(parts.cast(integer_matmul(parts, a, b), DType::kFloat32), scale);
}

void compose_runtime_quantize(PendingNode& node) {
  expect_inputs(node, 2);
  quantize_precision(node);
  node.results = {Parts(node).op("QuantizeLinear", node.inputs, node.attributes)};
}

void compose_runtime_dequantize(PendingNode& node) {
  expect_inputs(node, 2);
  node.results = {Parts(node).op("DequantizeLinear", node.inputs, node.attributes)};
}

void compose_dynamic_quantize_matmul(PendingNode& node) {
  enum Input : size_t { kA, kB, kScale, kZero, kBias };
  expect_inputs(node, 3);
  Parts parts(node);
  const Quantized a = dynamically_quantized(parts, node.inputs[kA]);
  const Quantized b{node.inputs[kB], node.inputs[kScale], input_or_none(node, kZero)};
  const Id y = scaled_product(parts, node, a, b, product_scale(parts, node, a, b));
  node.results = {with_bias(parts, node, y, kBias)};
}

void compose_matmul_integer_to_float(PendingNode& node) {
  enum Input : size_t { kA, kB, kAScale, kBScale, kAZero, kBZero, kBias };
  expect_inputs(node, 4);
  Parts parts(node);
  const Quantized a{node.inputs[kA], node.inputs[kAScale], input_or_none(node, kAZero)};
  const Quantized b{node.inputs[kB], node.inputs[kBScale], input_or_none(node, kBZero)};
  const Id y = scaled_product(parts, node, a, b, product_scale(parts, node, a, b));
  node.results = {parts.cast(with_bias(parts, node, y, kBias), node.dtype(kAScale))};
}

// ONNX Runtime rounds the inputs and the state of every step to 8 bits as well; here they stay
// floats.
void compose_dynamic_quantize_lstm(PendingNode& node) {
  enum Input : size_t { kX, kW, kR, kBias, kPeephole = 7, kWScale = 8, kRScale = 10 };
  for (size_t i : {kX, kW, kR}) check(node, node.has_input(i), "expected X, W and R");
  for (size_t i = kWScale; i < kWScale + 4; ++i) {
    check(node, node.has_input(i), "expected scales and zero points of W and R");
  }
  Parts parts(node);
  std::vector<Id> inputs(node.inputs.begin(), node.inputs.begin() + kPeephole + 1);
  inputs[kW] = lstm_weight(parts, node, kW, kWScale);
  inputs[kR] = lstm_weight(parts, node, kR, kRScale);
  while (inputs.back() == ir::kNone) inputs.pop_back();
  for (const char* output : {"Y", "Y_h", "Y_c"}) {
    node.results.push_back(node.emitter.add_value(fmt::format("{}/{}", node.name, output)));
  }
  node.emitter.add_node("LSTM", inputs, node.results, node.attributes, node.name + "/LSTM");
}

void compose_qattention(PendingNode& node) {
  enum Input : size_t { kX, kW, kBias, kXScale, kWScale, kMask, kXZero, kWZero, kPast };
  expect_inputs(node, 5);
  Parts parts(node);
  const Shape x = parts.shape(node.inputs[kX]), w = parts.shape(node.inputs[kW]);
  const int64_t heads = node.attributes.integer("num_heads", 0);
  check(node, x.size() == 3 && w.size() == 2 && x[2] == w[0] && w[1] % 3 == 0,
        fmt::format("an input of shape {} and a weight of shape {} do not fit", shape_text(x),
                    shape_text(w)));
  const int64_t hidden = w[1] / 3;
  check(node, heads > 0 && hidden % heads == 0, "num_heads must divide the weight's columns / 3");
  for (const char* name : {"do_rotary", "past_present_share_buffer"}) {
    if (node.attributes.integer(name, 0) != 0) node.unsupported(fmt::format("{} = 1", name));
  }
  const Quantized a{node.inputs[kX], node.inputs[kXScale], input_or_none(node, kXZero)};
  const Quantized b{node.inputs[kW], node.inputs[kWScale], input_or_none(node, kWZero)};
  const Id sums = scaled_product(parts, node, a, b, product_scale(parts, node, a, b));
  const Id all = parts.cast(with_bias(parts, node, sums, kBias), node.dtype(kXScale));

  PendingNode attention{.emitter = node.emitter,
                        .source = node.source,
                        .opset = node.opset,
                        .op = node.op,
                        .name = node.name,
                        .output_count = 3};
  for (int64_t i = 0; i < 3; ++i) {
    attention.inputs.push_back(parts.slice(all, 2, i * hidden, (i + 1) * hidden));
  }
  attention.inputs.resize(6, ir::kNone);
  int64_t keys = x[1];
  if (node.has_input(kPast)) {
    Shape past = parts.shape(node.inputs[kPast]);
    check(node, past.size() == 5 && past[0] == 2, "expected past of shape [2, batch, heads, ...]");
    keys += past[3];
    past.erase(past.begin());
    for (int64_t i = 0; i < 2; ++i) {
      attention.inputs[static_cast<size_t>(4 + i)] =
          parts.reshape(parts.slice(node.inputs[kPast], 0, i, i + 1), past);
    }
  }
  if (node.has_input(kMask)) {
    attention.inputs[3] = visible_keys(parts, node, node.inputs[kMask], x[0], keys);
  }
  attention.attributes = attribute("q_num_heads", heads);
  attention.attributes.set("kv_num_heads", heads);
  attention.attributes.set("is_causal", node.attributes.integer("unidirectional", 0));
  // As in ONNX Runtime, 0 is the default as well.
  const double scale = node.attributes.number("scale", 0);
  if (scale != 0) attention.attributes.set("scale", scale);
  compose_attention(attention);
  const auto stacked = [&](Id present) {
    Shape shape = parts.shape(present);
    shape.insert(shape.begin(), 1);
    return parts.reshape(present, shape);
  };
  node.results = {attention.results[0], ir::kNone};
  if (node.output_count > 1) {
    node.results[1] =
        parts.concat({stacked(attention.results[1]), stacked(attention.results[2])}, 0);
  }
}

// Rows are gathered as they are stored, in 8 bits.
void compose_qembed_layer_normalization(PendingNode& node) {
  enum Input : size_t { kIds, kSegments, kWord, kPosition, kSegment, kGamma, kBeta, kMask };
  // Of word, position, segment, gamma and beta.
  constexpr size_t kScales = 8, kZeros = 13;
  for (size_t i : {kIds, kWord, kPosition, kGamma, kBeta}) {
    check(node, node.has_input(i), fmt::format("input {} is missing", size_t{i}));
  }
  Parts parts(node);
  const Shape ids = parts.shape(node.inputs[kIds]);
  check(node, ids.size() == 2, "expected input_ids of 2 dimensions");
  const auto floats = [&](Id x, size_t which) {
    check(node, node.has_input(kScales + which) && node.has_input(kZeros + which),
          fmt::format("inputs {} and {}, a scale and a zero point, must be given", kScales + which,
                      kZeros + which));
    return parts.op("DequantizeLinear", {x, as_scalar(parts, node.inputs[kScales + which]),
                                         as_scalar(parts, node.inputs[kZeros + which])});
  };
  const auto gathered = [&](Input table, Input indices) {
    return parts.op("Gather", {node.inputs[table], node.inputs[indices]});
  };
  Id sum = floats(gathered(kWord, kIds), 0);
  check(node,
        !parts.shape(node.inputs[kPosition]).empty() &&
            parts.shape(node.inputs[kPosition])[0] >= ids[1],
        "the table of positions is shorter than the sequence");
  sum = parts.add(sum, floats(parts.slice(node.inputs[kPosition], 0, 0, ids[1]), 1));
  check(node, node.has_input(kSegments) == node.has_input(kSegment),
        "segment_ids and segment_embedding must be given together");
  if (node.has_input(kSegments)) sum = parts.add(sum, floats(gathered(kSegment, kSegments), 2));
  ir::Attributes attributes = attribute("axis", int64_t{-1});
  attributes.set("epsilon", node.attributes.number("epsilon", 1e-12f));
  node.results = {parts.op("LayerNormalization",
                           {sum, floats(node.inputs[kGamma], 3), floats(node.inputs[kBeta], 4)},
                           attributes)};
  if (node.output_count < 2) return;
  node.results.push_back(node.has_input(kMask)
                             ? parts.reduce("ReduceSum", node.inputs[kMask], {1}, false)
                             : parts.constant(Tensor(DType::kInt32, {ids[0]})));
}

}  // namespace stretto::onnx
