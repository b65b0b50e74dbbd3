// Chains and small DAGs of float32 arithmetic, and of the comparisons and choices between, become
// single loops: each value is read and written once instead of once per operation. Nothing is
// computed twice or on a larger shape than before.
#include <algorithm>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"elementwise", "merge-elementwise"};
constexpr int kMaxOperations = 32;  // and inputs: what a kernel takes
constexpr size_t kMaxInputs = 8;

using Arg = ir::ElementwiseArg;

std::optional<ElementwiseMatch> match(const Rewriter& graph, int n) {
  return match_elementwise(graph, n, LoopTypes::kFloat32AndBool);
}

bool fits(const ElementwiseMatch& match) {
  return ir::elementwise_operations(match.steps) <= kMaxOperations &&
         match.inputs.size() <= kMaxInputs;
}

void write(Rewriter& graph, int n, ElementwiseMatch match) {
  Attributes attributes;
  attributes.set("program", ir::elementwise_text(match.steps));
  const DType dtype = graph.dtype(graph.node(n).outputs[0]);
  if (dtype != graph.dtype(match.inputs[0]))
    attributes.set("dtype", std::string(dtype_name(dtype)));
  graph.become(n, "stretto.Elementwise", std::move(match.inputs), std::move(attributes));
}

// Appends the steps of `match` to `both`, in which its input `id` is `value`. A Copy is what it
// copies. Returns the result.
Arg append(ElementwiseMatch& both, const ElementwiseMatch& match, ValueId id, const Arg& value) {
  std::vector<Arg> inputs, results;
  for (ValueId input : match.inputs) {
    if (input == id) {
      inputs.push_back(value);
      continue;
    }
    const auto at = std::find(both.inputs.begin(), both.inputs.end(), input);
    const auto index = static_cast<int>(at - both.inputs.begin());
    if (at == both.inputs.end()) both.inputs.push_back(input);
    inputs.push_back({.kind = Arg::Kind::kInput, .index = index});
  }
  for (ir::ElementwiseStep step : match.steps) {
    for (Arg& arg : step.args) {
      if (arg.kind == Arg::Kind::kLiteral) continue;
      const auto i = static_cast<size_t>(arg.index);
      arg = arg.kind == Arg::Kind::kInput ? inputs[i] : results[i];
    }
    if (step.op == "Copy") {
      results.push_back(step.args[0]);
      continue;
    }
    results.push_back({.kind = Arg::Kind::kResult, .index = static_cast<int>(both.steps.size())});
    both.steps.push_back(std::move(step));
  }
  return results.back();
}

// `user` with the steps of `maker`, which makes input `id` of it, in front.
ElementwiseMatch joined(const ElementwiseMatch& maker, const ElementwiseMatch& user, ValueId id) {
  ElementwiseMatch both;
  const Arg value = append(both, maker, kNone, {});
  append(both, user, id, value);
  return both;
}

void merge(Rewriter& graph, int n, PassContext& context) {
  bool changed = true;
  while (changed) {
    changed = false;
    auto user = match(graph, n);
    if (!user) return;
    for (ValueId id : user->inputs) {
      const int before = graph.constant(id) != nullptr ? -1 : graph.producer(id);
      if (before < 0 || graph.only_user(id) != n) continue;
      if (graph.shape(id) != graph.shape(graph.node(n).outputs[0])) continue;
      const auto maker = match(graph, before);
      if (!maker) continue;
      ElementwiseMatch both = joined(*maker, *user, id);
      if (!fits(both)) continue;
      if (!context.allow("merge-elementwise", graph.node(n).name)) continue;
      write(graph, n, std::move(both));
      changed = true;
      break;
    }
  }
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (!rewriter.alive(n) || rewriter.constant(rewriter.node(n).outputs[0]) != nullptr) continue;
    if (!rewriter.is(n, "stretto.Elementwise")) {
      auto one = match(rewriter, n);
      if (!one || !fits(*one)) continue;
      const bool casts = rewriter.is(n, "Cast");  // nothing to gain but with a neighbour
      if (!casts && !context.allow("elementwise", rewriter.node(n).name)) continue;
      if (!casts) write(rewriter, n, std::move(*one));
    }
    merge(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kFuseElementwise{.name = "fuse-elementwise",
                            .summary = "float32 and bool arithmetic in fused loops",
                            .rules = kRules,
                            .run = run};

}  // namespace stretto::passes
