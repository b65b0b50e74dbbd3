// Activations and residual sums move into the convolution or matrix product that makes their input,
// where the data is still in registers: each saves one read and one write of the whole tensor.
#include <algorithm>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"activation", "residual"};

// The product that makes `id` for one user only, else -1.
int product_of(const Rewriter& graph, ValueId id) {
  if (!graph.used_once(id)) return -1;
  for (std::string_view op : {"stretto.Conv", "stretto.ConvTranspose", "stretto.Linear"}) {
    if (const int n = graph.maker(id, op); n >= 0) return n;
  }
  return -1;
}

bool has_residual(const Node& node) { return node.inputs.size() > 3 && node.inputs[3] != kNone; }

bool has_activation(const Node& node) {
  return node.attributes.text("activation", "none") != "none";
}

bool fuse_activation(Rewriter& graph, int n, PassContext& context) {
  const auto match = match_activation(graph, n);
  if (!match) return false;
  const int before = product_of(graph, match->x);
  if (before < 0) return false;
  const Node product = graph.node(before);
  if (has_activation(product) || !context.allow("activation", graph.node(n).name)) return false;
  Attributes attributes = product.attributes;
  attributes.set("activation", match->name);
  if (match->alpha != 0 || match->beta != 0) {
    attributes.set("alpha", match->alpha);
    attributes.set("beta", match->beta);
  }
  graph.become(n, product.op->name, product.inputs, std::move(attributes), product.name);
  return true;
}

bool fuse_residual(Rewriter& graph, int n, PassContext& context) {
  const Node add = graph.node(n);
  if (add.op->name != "Add" || add.inputs[0] == add.inputs[1] ||
      graph.dtype(add.outputs[0]) != DType::kFloat32) {
    return false;
  }
  const Shape& shape = graph.shape(add.outputs[0]);
  if (graph.shape(add.inputs[0]) != shape || graph.shape(add.inputs[1]) != shape) return false;
  int best = -1;
  ValueId residual = kNone;
  for (size_t side = 0; side < 2; ++side) {
    const int before = product_of(graph, add.inputs[side]);
    if (before < 0 || has_residual(graph.node(before))) continue;
    // If both sides qualify, the later product: the other one's result exists by then.
    if (best >= 0 && graph.position(before) < graph.position(best)) continue;
    best = before;
    residual = add.inputs[1 - side];
  }
  if (best < 0 || !context.allow("residual", add.name)) return false;
  const Node product = graph.node(best);
  std::vector<ValueId> inputs = product.inputs;
  inputs.resize(3, kNone);
  inputs.push_back(residual);
  Attributes attributes = product.attributes;
  if (has_activation(product)) attributes.set("residual_after_activation", int64_t{1});
  graph.become(n, product.op->name, std::move(inputs), std::move(attributes), product.name);
  return true;
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (!rewriter.alive(n) || rewriter.constant(rewriter.node(n).outputs[0]) != nullptr) continue;
    if (!fuse_residual(rewriter, n, context)) fuse_activation(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kFuseEpilogue{.name = "fuse-epilogue",
                         .summary = "activations and residual sums into the product before them",
                         .rules = kRules,
                         .run = run};

}  // namespace stretto::passes
