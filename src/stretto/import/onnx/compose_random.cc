// Bernoulli and Multinomial, of uniform random numbers.
#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/import/onnx/compose.h"
#include "stretto/import/onnx/upgrade_functions.h"

namespace stretto::onnx {
namespace {

using Id = ir::ValueId;

// Those of a part that draws for the node.
ir::Attributes drawing(const PendingNode& node, DType dtype) {
  ir::Attributes attributes = attribute("dtype", std::string(dtype_name(dtype)));
  if (node.attributes.has("seed")) attributes.set("seed", node.attributes.number("seed", 0));
  return attributes;
}

}  // namespace

void compose_bernoulli(PendingNode& node) {
  expect_inputs(node, 1);
  type_names(node);
  Parts parts(node);
  const Id chance = node.inputs[0];
  const Id drawn = parts.op("RandomUniformLike", {chance}, drawing(node, parts.dtype(chance)));
  node.results = {parts.cast(parts.op("Less", {drawn, chance}),
                             result_type(node, "dtype", parts.dtype(chance)))};
}

// The class whose logarithm is largest after a number with Gumbel's distribution has been added.
void compose_multinomial(PendingNode& node) {
  expect_inputs(node, 1);
  type_names(node);
  Parts parts(node);
  const Shape shape = parts.shape(node.inputs[0]);
  const int64_t samples = node.attributes.integer("sample_size", 1);
  check(node, shape.size() == 2 && shape[1] > 0, "input: expected [batch, classes]");
  check(node, samples > 0, "sample_size: expected 1 or more");
  const Id logits =
      parts.cast(node.inputs[0], parts.dtype(node.inputs[0]) == DType::kFloat64 ? DType::kFloat64
                                                                                : DType::kFloat32);
  ir::Attributes attributes = drawing(node, parts.dtype(logits));
  attributes.set("shape", std::vector<int64_t>{shape[0], samples, shape[1]});
  const Id drawn = parts.op("RandomUniform", {}, std::move(attributes));
  const Id waited = parts.op("Neg", {parts.op("Log", {drawn})});
  const Id scores =
      parts.subtract(parts.reshape(logits, {shape[0], 1, shape[1]}), parts.op("Log", {waited}));
  ir::Attributes along = attribute("axis", int64_t{2});
  along.set("keepdims", int64_t{0});
  node.results = {parts.cast(parts.op("ArgMax", {scores}, std::move(along)),
                             result_type(node, "dtype", DType::kInt32))};
}

}  // namespace stretto::onnx
