// Operators of ONNX Runtime (domain com.microsoft): activations, normalisations and products that
// its optimiser, Optimum and Olive write. ONNX has the parts.
#include "stretto/base/error.h"
#include "stretto/import/onnx/compose.h"

namespace stretto::onnx {
namespace {

using Id = ir::ValueId;

// x, plus input i where there is one.
Id with(Parts& parts, const PendingNode& node, Id x, size_t i) {
  return node.has_input(i) ? parts.add(x, node.inputs[i]) : x;
}

// The activation of a fused product, with its parameters in order.
Id activated(Parts& parts, const PendingNode& node, Id x, const std::string& name,
             std::span<const double> given) {
  const auto parameter = [&](size_t i, double fallback) {
    return i < given.size() ? given[i] : fallback;
  };
  if (name.empty()) return x;
  if (name == "Relu" || name == "Sigmoid" || name == "Tanh") return parts.op(name, {x});
  if (name == "LeakyRelu") return parts.op(name, {x}, attribute("alpha", parameter(0, 0.01f)));
  if (name == "Clip") {
    return parts.op(name, {x, parts.number(parameter(0, -3.4028234663852886e38), x),
                           parts.number(parameter(1, 3.4028234663852886e38), x)});
  }
  if (name == "HardSigmoid") {
    ir::Attributes slope = attribute("alpha", parameter(0, 0.2f));
    slope.set("beta", parameter(1, 0.5));
    return parts.op(name, {x}, slope);
  }
  node.unsupported(fmt::format("activation {} is not supported", name));
}

// [..., a, b] to [..., b, a].
Id swapped(Parts& parts, Id x) {
  const auto rank = static_cast<int64_t>(parts.shape(x).size());
  if (rank < 2) return x;
  std::vector<int64_t> order;
  for (int64_t i = 0; i < rank; ++i) order.push_back(i);
  std::swap(order[rank - 1], order[rank - 2]);
  return parts.transpose(x, order);
}

void drop_statistics(PendingNode& node) {
  for (size_t i : {1, 2}) node.dropped_outputs[i] = "only training needs it";
}

Id layer_norm(Parts& parts, const PendingNode& node, Id x, size_t gamma, size_t beta) {
  std::vector<Id> inputs{x, node.inputs[gamma]};
  if (node.has_input(beta)) inputs.push_back(node.inputs[beta]);
  return parts.op("LayerNormalization", inputs,
                  attribute("epsilon", node.attributes.number("epsilon", 1e-12f)));
}

Id group_norm(Parts& parts, const PendingNode& node, Id x) {
  const auto rank = static_cast<int64_t>(parts.shape(x).size());
  check(node, rank == 4, "expected an input of 4 dimensions");
  const bool last = node.attributes.integer("channels_last", 1) != 0;
  if (last) x = parts.transpose(x, {0, 3, 1, 2});
  ir::Attributes attributes = attribute("num_groups", node.attributes.integer("groups", 1));
  attributes.set("epsilon", node.attributes.number("epsilon", 1e-5f));
  const DType dtype = parts.dtype(x);
  Id y = parts.op("GroupNormalization",
                  {x, parts.cast(node.inputs[1], dtype), parts.cast(node.inputs[2], dtype)},
                  attributes);
  if (node.attributes.integer("activation", 0) != 0) y = parts.op("Swish", {y});
  return last ? parts.transpose(y, {0, 2, 3, 1}) : y;
}

}  // namespace

void compose_gelu(PendingNode& node) {
  expect_inputs(node, 1);
  node.results = {Parts(node).op("Gelu", {node.inputs[0]})};
}

void compose_bias_gelu(PendingNode& node) {
  expect_inputs(node, 2);
  Parts parts(node);
  node.results = {parts.op("Gelu", {with(parts, node, node.inputs[0], 1)})};
}

void compose_fast_gelu(PendingNode& node) {
  expect_inputs(node, 1);
  Parts parts(node);
  node.results = {parts.op("Gelu", {with(parts, node, node.inputs[0], 1)},
                           attribute("approximate", std::string("tanh")))};
}

void compose_quick_gelu(PendingNode& node) {
  expect_inputs(node, 1);
  node.results = {Parts(node).op("Swish", {node.inputs[0]},
                                 attribute("alpha", node.attributes.number("alpha", 1.702f)))};
}

void compose_bias_add(PendingNode& node) {
  expect_inputs(node, 3);
  Parts parts(node);
  node.results = {with(parts, node, with(parts, node, node.inputs[0], 1), 2)};
}

void compose_bias_split_gelu(PendingNode& node) {
  expect_inputs(node, 2);
  Parts parts(node);
  const Id x = with(parts, node, node.inputs[0], 1);
  const auto axis = static_cast<int64_t>(parts.shape(x).size()) - 1;
  const int64_t half = parts.shape(x).back() / 2;
  node.results = {parts.multiply(parts.slice(x, axis, 0, half),
                                 parts.op("Gelu", {parts.slice(x, axis, half, 2 * half)}))};
}

void compose_embed_layer_norm(PendingNode& node) {
  enum Input : size_t {
    kIds,
    kSegments,
    kWords,
    kPlaces,
    kSegmentTable,
    kGamma,
    kBeta,
    kMask,
    kAt
  };
  check(node,
        node.has_input(kIds) && node.has_input(kWords) && node.has_input(kPlaces) &&
            node.has_input(kGamma) && node.has_input(kBeta),
        "an input is missing");
  Parts parts(node);
  const Shape ids = parts.shape(node.inputs[kIds]);
  check(node, ids.size() == 2, "expected input_ids of shape [batch, length]");
  Id sum = parts.op("Gather", {node.inputs[kWords], node.inputs[kIds]});
  sum = parts.add(sum, node.has_input(kAt)
                           ? parts.op("Gather", {node.inputs[kPlaces], node.inputs[kAt]})
                           : parts.slice(node.inputs[kPlaces], 0, 0, ids[1]));
  if (node.has_input(kSegments))
    sum = parts.add(sum, parts.op("Gather", {node.inputs[kSegmentTable], node.inputs[kSegments]}));
  node.results = {layer_norm(parts, node, sum, kGamma, kBeta), ir::kNone, sum};
  if (node.output_count < 2) return;
  node.results[1] =
      node.has_input(kMask)
          ? parts.cast(parts.reduce("ReduceSum", parts.cast(node.inputs[kMask], DType::kInt64), {1},
                                    false),
                       DType::kInt32)
          : parts.constant(Tensor(DType::kInt32, {ids[0]}));
}

void compose_expand_dims(PendingNode& node) {
  expect_inputs(node, 2);
  const std::vector<int64_t> axis = known_integers(node, 1, "axis");
  Parts parts(node);
  node.results = {parts.op("Unsqueeze", {node.inputs[0], parts.integers(axis)})};
}

void compose_fused_conv(PendingNode& node) {
  expect_inputs(node, 2);
  Parts parts(node);
  const std::string activation = node.attributes.text("activation", "");
  const std::vector<double> parameters = node.attributes.numbers("activation_params", {});
  ir::Attributes attributes = node.attributes;
  attributes.erase("activation");
  attributes.erase("activation_params");
  std::vector<Id> inputs{node.inputs[0], node.inputs[1]};
  if (node.has_input(2)) inputs.push_back(node.inputs[2]);
  const Id y = with(parts, node, parts.op("Conv", inputs, attributes), 3);
  node.results = {activated(parts, node, y, activation, parameters)};
}

void compose_fused_gemm(PendingNode& node) {
  expect_inputs(node, 2);
  Parts parts(node);
  ir::Attributes attributes;
  for (const char* name : {"transA", "transB"}) {
    attributes.set(name, node.attributes.integer(name, 0));
  }
  for (const char* name : {"alpha", "beta"}) {
    attributes.set(name, node.attributes.number(name, 1));
  }
  std::vector<Id> inputs{node.inputs[0], node.inputs[1]};
  if (node.has_input(2)) inputs.push_back(node.inputs[2]);
  std::vector<double> parameters;
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    if (node.attributes.has(name)) parameters.push_back(node.attributes.number(name, 0));
  }
  node.results = {activated(parts, node, parts.op("Gemm", inputs, attributes),
                            node.attributes.text("activation", ""), parameters)};
}

void compose_fused_matmul(PendingNode& node) {
  expect_inputs(node, 2);
  for (const char* name : {"transBatchA", "transBatchB"}) {
    if (node.attributes.integer(name, 0) != 0)
      node.unsupported(fmt::format("{} is not supported", name));
  }
  Parts parts(node);
  Id a = node.inputs[0], b = node.inputs[1];
  if (node.attributes.integer("transA", 0) != 0) a = swapped(parts, a);
  if (node.attributes.integer("transB", 0) != 0) b = swapped(parts, b);
  Id y = parts.matmul(a, b);
  const double alpha = node.attributes.number("alpha", 1);
  if (alpha != 1) y = parts.multiply(y, parts.number(alpha, y));
  node.results = {y};
}

void compose_runtime_group_norm(PendingNode& node) {
  expect_inputs(node, 3);
  Parts parts(node);
  node.results = {group_norm(parts, node, node.inputs[0])};
}

void compose_skip_group_norm(PendingNode& node) {
  expect_inputs(node, 4);
  Parts parts(node);
  Id skip = node.inputs[3];
  const Shape shape = parts.shape(skip);
  if (shape.size() == 2) skip = parts.reshape(skip, {shape[0], 1, 1, shape[1]});
  const Id sum = with(parts, node, parts.add(node.inputs[0], skip), 4);
  node.results = {group_norm(parts, node, sum), sum};
}

void compose_runtime_trilu(PendingNode& node) {
  expect_inputs(node, 1);
  node.results = {Parts(node).op("Trilu", node.inputs, node.attributes)};
}

void compose_simplified_layer_norm(PendingNode& node) {
  expect_inputs(node, 2);
  ir::Attributes attributes = attribute("axis", node.attributes.integer("axis", -1));
  attributes.set("epsilon", node.attributes.number("epsilon", 1e-5f));
  node.results = {Parts(node).op("RMSNormalization", {node.inputs[0], node.inputs[1]}, attributes)};
  node.dropped_outputs[1] = "only training needs it";
}

void compose_skip_layer_norm(PendingNode& node) {
  expect_inputs(node, 3);
  Parts parts(node);
  const Id sum = with(parts, node, with(parts, node, node.inputs[0], 4), 1);
  node.results = {layer_norm(parts, node, sum, 2, 3), ir::kNone, ir::kNone, sum};
  drop_statistics(node);
}

void compose_skip_simplified_layer_norm(PendingNode& node) {
  expect_inputs(node, 3);
  Parts parts(node);
  const Id sum = with(parts, node, with(parts, node, node.inputs[0], 3), 1);
  const Id y = parts.op("RMSNormalization", {sum, node.inputs[2]},
                        attribute("epsilon", node.attributes.number("epsilon", 1e-12f)));
  node.results = {y, ir::kNone, ir::kNone, sum};
  drop_statistics(node);
}

}  // namespace stretto::onnx
