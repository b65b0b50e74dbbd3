// Optional values that are tensors: whether one is there is known when the model is read.
#include "stretto/import/onnx/compose.h"

namespace stretto::onnx {

void compose_optional_has_element(PendingNode& node) {
  node.results = {node.add_constant("there", Tensor::scalar<bool>(node.has_input(0)))};
}

void compose_optional_get_element(PendingNode& node) {
  if (!node.has_input(0)) throw_invalid("{} \"{}\": there is no value", node.op, node.name);
  node.results = {node.inputs[0]};
}

}  // namespace stretto::onnx
