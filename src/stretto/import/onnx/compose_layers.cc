// Layers and losses that are a few elementwise operations and reductions.
#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/import/onnx/compose.h"

namespace stretto::onnx {
namespace {

using Id = ir::ValueId;

Id silu(Parts& parts, Id x) { return parts.multiply(x, parts.op("Sigmoid", {x})); }

}  // namespace

void compose_causal_conv(PendingNode& node) {
  expect_inputs(node, 2);
  Parts parts(node);
  const Id x = node.inputs[0], weight = node.inputs[1];
  const Shape shape = parts.shape(x), kernel = parts.shape(weight);
  if (shape.size() != 3 || kernel.size() != 3 || kernel[0] != shape[1] || kernel[1] != 1) {
    throw_invalid("{} \"{}\": a weight of shape {} does not fit an input of shape {}", node.op,
                  node.name, shape_text(kernel), shape_text(shape));
  }
  const int64_t state = kernel[2] - 1;
  const Id past = node.has_input(3)
                      ? node.inputs[3]
                      : parts.constant(Tensor(parts.dtype(x), {shape[0], shape[1], state}));
  const Id padded = parts.concat({past, x}, 2);
  std::vector<Id> inputs{padded, weight};
  if (node.has_input(2)) inputs.push_back(node.inputs[2]);
  Id y = parts.op("Conv", inputs, attribute("group", shape[1]));
  const std::string activation = node.attributes.text("activation", "none");
  if (activation == "silu" || activation == "swish") {
    y = silu(parts, y);
  } else if (activation != "none") {
    throw_invalid("{} \"{}\": activation: expected none, silu or swish, got {}", node.op, node.name,
                  activation);
  }
  const int64_t length = parts.shape(padded)[2];
  node.results = {y, parts.slice(padded, 2, length - state, length)};
}

void compose_global_lp_pool(PendingNode& node) {
  expect_inputs(node, 1);
  Parts parts(node);
  const int64_t p = node.attributes.integer("p", 2);
  check(node, p >= 1, "p: expected 1 or more");
  const Id x = node.inputs[0];
  std::vector<int64_t> axes;
  for (size_t i = 2; i < parts.shape(x).size(); ++i) axes.push_back(static_cast<int64_t>(i));
  check(node, !axes.empty(), "expected an input of shape [batch, channels, ...]");
  if (p <= 2) {
    node.results = {parts.reduce(p == 1 ? "ReduceL1" : "ReduceL2", x, axes)};
    return;
  }
  const auto exponent = static_cast<double>(p);
  const Id powers = parts.op("Pow", {parts.op("Abs", {x}), parts.number(exponent, x)});
  const Id sum = parts.reduce("ReduceSum", powers, axes);
  node.results = {parts.op("Pow", {sum, parts.number(1 / exponent, x)})};
}

// Rows of zeros stay zeros.
void compose_lp_normalization(PendingNode& node) {
  expect_inputs(node, 1);
  Parts parts(node);
  const int64_t p = node.attributes.integer("p", 2);
  if (p != 1 && p != 2) {
    throw_invalid("{} \"{}\": p: expected 1 or 2, got {}", node.op, node.name, p);
  }
  const Id x = node.inputs[0];
  const Id norm =
      parts.reduce(p == 1 ? "ReduceL1" : "ReduceL2", x, {node.attributes.integer("axis", -1)});
  const Id none = parts.op("Equal", {norm, parts.number(0, norm)});
  node.results = {parts.op("Where", {none, parts.number(0, x), parts.divide(x, norm)})};
}

void compose_mean_variance_normalization(PendingNode& node) {
  expect_inputs(node, 1);
  Parts parts(node);
  const std::vector<int64_t> axes = node.attributes.integers("axes", {0, 2, 3});
  const Id x = node.inputs[0];
  const Id centred = parts.subtract(x, parts.reduce("ReduceMean", x, axes));
  const Id variance = parts.reduce("ReduceMean", parts.multiply(centred, centred), axes);
  const Id deviation = parts.op("Sqrt", {variance});
  node.results = {parts.divide(centred, parts.add(deviation, parts.number(1e-9, deviation)))};
}

void compose_softmax_cross_entropy(PendingNode& node) {
  expect_inputs(node, 2);
  Parts parts(node);
  const Id logarithms = parts.op("LogSoftmax", {node.inputs[0]}, attribute("axis", int64_t{1}));
  std::vector<Id> inputs = node.inputs;
  inputs[0] = logarithms;
  node.results = {parts.op("NegativeLogLikelihoodLoss", inputs, node.attributes), logarithms};
}

void compose_swiglu(PendingNode& node) {
  expect_inputs(node, 2);
  Parts parts(node);
  const Id gate = node.inputs[0], value = node.inputs[1];
  if (parts.shape(gate) != parts.shape(value)) {
    throw_invalid("{} \"{}\": expected two inputs of one shape, got {} and {}", node.op, node.name,
                  shape_text(parts.shape(gate)), shape_text(parts.shape(value)));
  }
  const double alpha = node.attributes.number("alpha", 1);
  const Id gated =
      alpha == 1 ? silu(parts, gate) : parts.op("Swish", {gate}, attribute("alpha", alpha));
  node.results = {parts.multiply(gated, value)};
}

void train_batch_normalization(PendingNode& node) {
  expect_inputs(node, 5);
  Parts parts(node);
  const Id x = node.inputs[0];
  const Shape shape = parts.shape(x);
  if (shape.size() < 2) {
    throw_invalid("{} \"{}\": expected an input of shape [batch, channels, ...], got {}", node.op,
                  node.name, shape_text(shape));
  }
  std::vector<int64_t> axes{0};
  for (size_t i = 2; i < shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  const Id column = parts.reduce("ReduceMean", x, axes);
  const Id centred = parts.subtract(x, column);
  const auto statistic = [&](Id id, size_t input) {
    return parts.cast(parts.reshape(id, {shape[1]}), parts.dtype(node.inputs[input]));
  };
  const Id mean = statistic(column, 3);
  const Id variance =
      statistic(parts.reduce("ReduceMean", parts.multiply(centred, centred), axes), 4);
  const double momentum = node.attributes.number("momentum", 0.9f);
  const auto running = [&](Id before, Id now) {
    return parts.add(parts.multiply(before, parts.number(momentum, before)),
                     parts.multiply(now, parts.number(1 - momentum, now)));
  };
  const ir::Attributes epsilon = attribute("epsilon", node.attributes.number("epsilon", 1e-5f));
  node.results = {
      parts.op("BatchNormalization", {x, node.inputs[1], node.inputs[2], mean, variance}, epsilon),
      running(node.inputs[3], mean), running(node.inputs[4], variance)};
}

}  // namespace stretto::onnx
