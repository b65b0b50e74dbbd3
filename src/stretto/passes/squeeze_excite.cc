// The squeeze of squeeze-and-excitation (arXiv:1709.01507), and every other mean over whole images,
// in one form: GlobalAveragePool, which stays in channel blocks. The excitation needs nothing of
// its own: the gate's activation ends in its convolution, and the product is an elementwise loop.
#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"mean-to-global-pool", "average-to-global-pool",
                                       "flat-gate"};

void from_mean(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const ValueId x = node.inputs[0];
  const auto axes = reduce_axes(graph, n);
  if (graph.shape(x).size() != 4 || graph.dtype(x) != DType::kFloat32) return;
  if (!axes || *axes != std::vector<int64_t>{2, 3}) return;
  if (!context.allow("mean-to-global-pool", node.name)) return;
  const Shape pooled{graph.shape(x)[0], graph.shape(x)[1], 1, 1};
  if (graph.shape(node.outputs[0]) == pooled) {
    graph.become(n, "GlobalAveragePool", {x}, {});
    return;
  }
  const Shape flat = graph.shape(node.outputs[0]);
  const ValueId pool =
      graph.insert(n, "GlobalAveragePool", {x}, {}, DType::kFloat32, pooled, node.name + ".pool");
  graph.become(n, "Reshape", {pool, graph.add_constant("shape", Tensor::int64s(flat))}, {});
}

void from_average_pool(Rewriter& graph, int n, PassContext& context) {
  const Node& node = graph.node(n);
  const Shape& x = graph.shape(node.inputs[0]);
  const Shape& y = graph.shape(node.outputs[0]);
  if (x.size() != 4 || y[2] != 1 || y[3] != 1 || graph.dtype(node.inputs[0]) != DType::kFloat32)
    return;
  const auto kernel = node.attributes.integers("kernel_shape", {});
  const bool whole = kernel == std::vector<int64_t>{x[2], x[3]};
  const auto pads = node.attributes.integers("pads", {0, 0, 0, 0});
  if (!whole || pads != std::vector<int64_t>{0, 0, 0, 0}) return;
  if (node.attributes.text("auto_pad", "NOTSET").starts_with("SAME")) return;
  if (!context.allow("average-to-global-pool", node.name)) return;
  const std::vector<ValueId> inputs = node.inputs;
  graph.become(n, "GlobalAveragePool", inputs, {});
}

// sigmoid(Reshape(s)) with s of one pixel per channel: Reshape(sigmoid(s)), so that the gate's
// activation can join the product that makes s.
void flat_gate(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const int reshape = graph.maker(node.inputs[0], "Reshape");
  if (reshape < 0 || !graph.used_once(node.inputs[0])) return;
  if (graph.constant(graph.node(reshape).inputs[1]) == nullptr) return;
  const Node shaped = graph.node(reshape);
  const Shape inner = graph.shape(shaped.inputs[0]);
  if (graph.dtype(node.outputs[0]) != DType::kFloat32 || inner.size() < 2) return;
  if (!context.allow("flat-gate", node.name)) return;
  const ValueId gate = graph.insert(n, node.op->name, {shaped.inputs[0]}, node.attributes,
                                    DType::kFloat32, inner, node.name + ".flat");
  graph.become(n, "Reshape", {gate, shaped.inputs[1]}, shaped.attributes);
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (!rewriter.alive(n) || rewriter.constant(rewriter.node(n).outputs[0]) != nullptr) continue;
    if (rewriter.is(n, "ReduceMean"))
      from_mean(rewriter, n, context);
    else if (rewriter.is(n, "AveragePool"))
      from_average_pool(rewriter, n, context);
    else if (rewriter.is(n, "Sigmoid") || rewriter.is(n, "HardSigmoid"))
      flat_gate(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kSqueezeExcite{
    .name = "squeeze-excite",
    .summary = "means over whole images as GlobalAveragePool, gates kept flat",
    .rules = kRules,
    .run = run};

}  // namespace stretto::passes
