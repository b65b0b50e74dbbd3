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

}  // namespace stretto::onnx
