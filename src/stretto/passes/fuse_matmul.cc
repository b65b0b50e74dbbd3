// Products of two computed matrices: a swap of the right one's last two axes and a scalar factor,
// before or after, become part of stretto.MatMul.
#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"matmul", "matmul-transpose", "matmul-scale"};

bool swaps_last_two(const std::vector<int64_t>& perm) {
  const auto rank = static_cast<int64_t>(perm.size());
  for (int64_t i = 0; i + 2 < rank; ++i) {
    if (perm[static_cast<size_t>(i)] != i) return false;
  }
  return rank >= 2 && perm[static_cast<size_t>(rank - 1)] == rank - 2;
}

void fuse(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  if (graph.dtype(node.outputs[0]) != DType::kFloat32) return;
  if (graph.shape(node.inputs[0]).size() < 2 || graph.shape(node.inputs[1]).size() < 2) return;
  if (!context.allow("matmul", node.name)) return;
  ValueId b = node.inputs[1];
  Attributes attributes;
  if (const int t = graph.maker(b, "Transpose"); t >= 0 && swaps_last_two(permutation(graph, t)) &&
                                                 context.allow("matmul-transpose", node.name)) {
    attributes.set("trans_b", int64_t{1});
    b = graph.node(t).inputs[0];
  }
  graph.become(n, "stretto.MatMul", {node.inputs[0], b}, std::move(attributes));
}

void scale(Rewriter& graph, int n, PassContext& context) {
  const auto match = with_scalar(graph, n);
  if (!match || !graph.used_once(match->x)) return;
  const int product = graph.maker(match->x, "stretto.MatMul");
  if (product < 0 || !context.allow("matmul-scale", graph.node(n).name)) return;
  const Node matmul = graph.node(product);
  Attributes attributes = matmul.attributes;
  const double factor = graph.is(n, "Div") ? 1 / match->c : match->c;
  attributes.set("scale", attributes.number("scale", 1) * factor);
  graph.become(n, "stretto.MatMul", matmul.inputs, std::move(attributes), matmul.name);
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "MatMul"))
      fuse(rewriter, n, context);
    else if (rewriter.is(n, "Mul") || rewriter.is(n, "Div"))
      scale(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kFuseMatMul{.name = "fuse-matmul",
                       .summary = "matrix products take transpose and scale in",
                       .rules = kRules,
                       .run = run};

}  // namespace stretto::passes
