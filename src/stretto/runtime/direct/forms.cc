#include "stretto/runtime/direct/forms.h"

#include "stretto/import/onnx/compose.h"

namespace stretto::runtime::direct {
namespace {

using onnx::Parts;
using onnx::PendingNode;

// A product whose right matrix is not known is MatMul, whose kernels take it as it is; that of a
// Gemm would be packed in every call.
void gemm(PendingNode& node) {
  if (node.inputs.size() < 2 || node.constant(1) != nullptr || node.opset < 7) return;
  if (node.dtype(0) != DType::kFloat32 || node.dtype(1) != DType::kFloat32) return;
  if (node.shape(0)->size() != 2 || node.shape(1)->size() != 2) return;  // Gemm says what is wrong
  for (const auto& [name, value] : node.attributes.all()) {
    if (name != "alpha" && name != "beta" && name != "transA" && name != "transB") return;
  }
  const Shape &a_shape = *node.shape(0), &b_shape = *node.shape(1);
  const bool trans_a = node.attributes.integer("transA", 0) != 0;
  const bool trans_b = node.attributes.integer("transB", 0) != 0;
  const double alpha = node.attributes.number("alpha", 1), beta = node.attributes.number("beta", 1);
  const bool has_c = node.has_input(2);
  if (a_shape[trans_a ? 0 : 1] != b_shape[trans_b ? 1 : 0]) return;
  if (has_c) {
    const Shape y{a_shape[trans_a ? 1 : 0], b_shape[trans_b ? 0 : 1]};
    const Shape& c = *node.shape(2);
    if (node.dtype(2) != DType::kFloat32 || c.size() > 2) return;
    for (size_t i = 0; i < c.size(); ++i) {
      if (c[c.size() - 1 - i] != y[1 - i] && c[c.size() - 1 - i] != 1) return;
    }
  }
  Parts parts(node);
  const Parts::Id a = trans_a ? parts.transpose(node.inputs[0], {1, 0}) : node.inputs[0];
  const Parts::Id b = trans_b ? parts.transpose(node.inputs[1], {1, 0}) : node.inputs[1];
  Parts::Id y = parts.matmul(a, b);
  if (alpha != 1) y = parts.multiply(y, parts.number(alpha, y));
  if (has_c && beta != 0) {
    const Parts::Id c = node.inputs[2];
    y = parts.add(y, beta == 1 ? c : parts.multiply(c, parts.number(beta, c)));
  }
  node.results = {y};
}

struct Row {
  std::string_view op;
  Form form;
};
constexpr Row kForms[] = {
    {"Gemm", gemm},
};

}  // namespace

Form find_form(std::string_view op) {
  for (const Row& row : kForms) {
    if (row.op == op) return row.form;
  }
  return nullptr;
}

}  // namespace stretto::runtime::direct
