// A sum that is normalised next is summed and normalised in one pass over memory. Sums that a
// product's epilogue could make for free have gone there before.
#include "stretto/base/error.h"
#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"add-layer-norm"};

void fuse(Rewriter& graph, int n, PassContext& context) {
  const Node norm = graph.node(n);
  const int add_node = graph.maker(norm.inputs[0], "Add");
  const auto rank = static_cast<int64_t>(graph.shape(norm.inputs[0]).size());
  const int64_t axis = normalize_axis(norm.attributes.integer("axis", -1), rank, "axis");
  if (add_node < 0 || axis != rank - 1 || graph.dtype(norm.inputs[0]) != DType::kFloat32) return;
  for (size_t i = 1; i < norm.outputs.size(); ++i) {
    if (norm.outputs[i] != kNone) return;
  }
  const Node add = graph.node(add_node);
  const ValueId sum = add.outputs[0];
  for (ValueId id : add.inputs) {
    if (graph.shape(id) != graph.shape(sum)) return;
  }
  // Constants go second, where a kernel may treat them as a table.
  const bool swap = graph.constant(add.inputs[0]) != nullptr;
  std::vector<ValueId> inputs{add.inputs[swap ? 1 : 0], add.inputs[swap ? 0 : 1]};
  inputs.insert(inputs.end(), norm.inputs.begin() + 1, norm.inputs.end());
  if (!context.allow("add-layer-norm", norm.name)) return;
  const bool shared = !graph.used_once(sum);
  Attributes attributes;
  attributes.set("epsilon", norm.attributes.number("epsilon", 1e-5f));
  graph.become(n, "stretto.AddLayerNorm", std::move(inputs), std::move(attributes));
  if (shared) graph.take_output(n, sum);
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "LayerNormalization")) fuse(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kFuseAddLayerNorm{.name = "fuse-add-layer-norm",
                             .summary = "sum and layer normalisation in one",
                             .rules = kRules,
                             .run = run};

}  // namespace stretto::passes
