// Products with a constant matrix become stretto.Linear, which has room for bias and epilogue.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"matmul-linear", "gemm-linear"};

bool constant_matrix(const Rewriter& graph, ValueId id) {
  const Tensor* weight = graph.constant(id);
  return weight != nullptr && weight->rank() == 2 && weight->dtype() == DType::kFloat32;
}

void fuse_matmul(Rewriter& graph, int n, PassContext& context) {
  const Node& node = graph.node(n);
  const bool fits = graph.constant(node.inputs[0]) == nullptr &&
                    graph.shape(node.inputs[0]).size() >= 2 &&
                    constant_matrix(graph, node.inputs[1]);
  if (!fits || !context.allow("matmul-linear", node.name)) return;
  const std::vector<ValueId> inputs = node.inputs;
  graph.become(n, "stretto.Linear", inputs, {});
}

Tensor times(const Tensor& tensor, double factor) {
  if (factor == 1) return tensor;
  Tensor out(tensor.dtype(), tensor.shape());
  const auto from = tensor.values<float>();
  auto to = out.mutable_values<float>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<float>(from[i] * factor);
  return out;
}

// C of a Gemm as a bias of n numbers: any shape that repeats along the rows.
std::optional<Tensor> as_bias(const Tensor& c, int64_t columns) {
  if (c.count() == columns && (c.rank() < 2 || c.dim(0) == 1)) return c.reshaped({columns});
  if (c.count() != 1) return std::nullopt;
  Tensor bias(DType::kFloat32, {columns});
  std::ranges::fill(bias.mutable_values<float>(), c.values<float>()[0]);
  return bias;
}

void fuse_gemm(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const Attributes& a = node.attributes;
  const ValueId c = node.inputs.size() > 2 ? node.inputs[2] : kNone;
  if (a.integer("transA", 0) != 0 || graph.constant(node.inputs[0]) != nullptr ||
      !constant_matrix(graph, node.inputs[1])) {
    return;
  }
  const double alpha = a.number("alpha", 1), beta = a.number("beta", 1);
  const Shape y = graph.shape(node.outputs[0]);  // a copy: constants that are added move values
  std::optional<Tensor> bias;
  ValueId residual = kNone;
  if (c != kNone && beta != 0) {
    if (graph.constant(c) != nullptr) bias = as_bias(*graph.constant(c), y[1]);
    if (!bias && beta == 1 && graph.shape(c) == y) residual = c;
    if (!bias && residual == kNone) return;
  }
  if (!context.allow("gemm-linear", node.name)) return;
  const std::string weight_name = graph.name(node.inputs[1]);
  std::vector<ValueId> inputs{node.inputs[0], node.inputs[1]};
  if (alpha != 1) {
    const Tensor weight = *graph.constant(node.inputs[1]);
    inputs[1] = graph.add_constant(
        weight_name, context.derive_one(fmt::format("times {}", alpha), std::array{weight},
                                        [&] { return times(weight, alpha); }));
  }
  if (bias) {
    const bool as_is = beta == 1 && graph.shape(c) == Shape{y[1]};
    inputs.push_back(as_is ? c : graph.add_constant(graph.name(c), times(*bias, beta)));
  }
  if (residual != kNone) inputs.insert(inputs.end(), {kNone, residual});
  Attributes attributes;
  if (a.integer("transB", 0) != 0) attributes.set("trans_weight", int64_t{1});
  graph.become(n, "stretto.Linear", std::move(inputs), std::move(attributes));
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "MatMul")) fuse_matmul(rewriter, n, context);
    if (rewriter.is(n, "Gemm")) fuse_gemm(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kFuseLinear{.name = "fuse-linear",
                       .summary = "products with a constant matrix in Stretto's form",
                       .rules = kRules,
                       .run = run};

}  // namespace stretto::passes
