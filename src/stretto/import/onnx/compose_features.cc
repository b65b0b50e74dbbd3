// Operators of domain ai.onnx.ml on plain tensors.
#include "stretto/base/error.h"
#include "stretto/import/onnx/compose.h"

namespace stretto::onnx {

void compose_array_feature_extractor(PendingNode& node) {
  if (!node.has_input(0) || !node.has_input(1)) {
    throw_invalid("{} \"{}\": expected X and Y", node.op, node.name);
  }
  Parts parts(node);
  const ir::ValueId x = node.inputs[0];
  const int64_t count = element_count(parts.shape(node.inputs[1]));
  const ir::ValueId places = parts.reshape(node.inputs[1], {count});
  ir::ValueId y = parts.op("Gather", {x, places}, attribute("axis", int64_t{-1}));
  if (parts.shape(x).size() == 1) y = parts.reshape(y, {1, count});
  node.results = {y};
}

void compose_binarizer(PendingNode& node) {
  if (!node.has_input(0)) throw_invalid("{} \"{}\": expected X", node.op, node.name);
  Parts parts(node);
  const ir::ValueId x = node.inputs[0];
  const ir::ValueId limit = parts.number(node.attributes.number("threshold", 0), x);
  node.results = {parts.cast(parts.op("Greater", {x, limit}), parts.dtype(x))};
}

}  // namespace stretto::onnx
