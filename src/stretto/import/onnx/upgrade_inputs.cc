// Attributes that became inputs.
#include "stretto/base/error.h"
#include "stretto/import/onnx/upgrade_functions.h"

namespace stretto::onnx {
namespace {

// The attribute as a constant int64 input; nothing when the node does not have it.
void integers_to_input(PendingNode& node, std::string_view attribute, size_t input) {
  if (!node.attributes.has(attribute)) return;
  const std::vector<int64_t> values = node.attributes.integers(attribute, {});
  node.attributes.erase(attribute);
  node.set_input(input, node.add_constant(attribute, Tensor::int64s(values)));
}

void number_to_input(PendingNode& node, std::string_view attribute, size_t input) {
  if (!node.attributes.has(attribute) || !node.has_input(0)) return;
  const Tensor value = Tensor::scalar<double>(node.attributes.number(attribute, 0));
  node.attributes.erase(attribute);
  const DType dtype = node.emitter.value(node.inputs[0]).dtype;
  node.set_input(input, node.add_constant(attribute, value.converted(dtype)));
}

}  // namespace

void axes_input(PendingNode& node) { integers_to_input(node, "axes", 1); }

void clip_limits(PendingNode& node) {
  number_to_input(node, "min", 1);
  number_to_input(node, "max", 2);
}

void dft_axis(PendingNode& node) {
  const int64_t axis = node.attributes.integer("axis", 1);
  node.attributes.erase("axis");
  node.set_input(2, node.add_constant("axis", Tensor::scalar<int64_t>(axis)));
}

void pad_inputs(PendingNode& node) {
  integers_to_input(node, "pads", 1);
  number_to_input(node, "value", 2);
}

void slice_inputs(PendingNode& node) {
  integers_to_input(node, "starts", 1);
  integers_to_input(node, "ends", 2);
  integers_to_input(node, "axes", 3);
}

void split_input(PendingNode& node) { integers_to_input(node, "split", 1); }

void topk_input(PendingNode& node) {
  const int64_t k[] = {node.attributes.integer("k", 0)};
  if (!node.attributes.has("k")) return;
  node.attributes.erase("k");
  node.set_input(1, node.add_constant("k", Tensor::int64s(k)));
}

}  // namespace stretto::onnx
