// Chains and small DAGs of float32 arithmetic become single loops: each value is read and written
// once instead of once per operation. Nothing is computed twice or on a larger shape than before.
#include <algorithm>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"elementwise", "merge-elementwise"};
constexpr size_t kMaxSteps = 32, kMaxInputs = 8;

using Arg = ir::ElementwiseArg;

void write(Rewriter& graph, int n, ElementwiseMatch match) {
  Attributes attributes;
  attributes.set("program", ir::elementwise_text(match.steps));
  graph.become(n, "stretto.Elementwise", std::move(match.inputs), std::move(attributes));
}

// `user` with the steps of `maker`, which makes input `id` of it, in front.
ElementwiseMatch joined(const ElementwiseMatch& maker, const ElementwiseMatch& user, ValueId id) {
  ElementwiseMatch both = maker;
  const auto offset = static_cast<int>(maker.steps.size());
  for (ir::ElementwiseStep step : user.steps) {
    for (Arg& arg : step.args) {
      if (arg.kind == Arg::Kind::kResult) {
        arg.index += offset;
      } else if (arg.kind == Arg::Kind::kInput) {
        const ValueId input = user.inputs[static_cast<size_t>(arg.index)];
        if (input == id) {
          arg = {.kind = Arg::Kind::kResult, .index = offset - 1};
          continue;
        }
        const auto at = std::find(both.inputs.begin(), both.inputs.end(), input);
        arg.index = static_cast<int>(at - both.inputs.begin());
        if (at == both.inputs.end()) both.inputs.push_back(input);
      }
    }
    both.steps.push_back(std::move(step));
  }
  return both;
}

void merge(Rewriter& graph, int n, PassContext& context) {
  bool changed = true;
  while (changed) {
    changed = false;
    auto user = match_elementwise(graph, n);
    if (!user) return;
    for (ValueId id : user->inputs) {
      const int before = graph.maker(id, "stretto.Elementwise");
      if (before < 0 || graph.only_user(id) != n) continue;
      if (graph.shape(id) != graph.shape(graph.node(n).outputs[0])) continue;
      const auto maker = match_elementwise(graph, before);
      if (!maker) continue;
      ElementwiseMatch both = joined(*maker, *user, id);
      if (both.steps.size() > kMaxSteps || both.inputs.size() > kMaxInputs) continue;
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
      auto match = match_elementwise(rewriter, n);
      if (!match || match->steps.size() > kMaxSteps || match->inputs.size() > kMaxInputs) continue;
      if (!context.allow("elementwise", rewriter.node(n).name)) continue;
      write(rewriter, n, std::move(*match));
    }
    merge(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kFuseElementwise{.name = "fuse-elementwise",
                            .summary = "float32 arithmetic in fused loops",
                            .rules = kRules,
                            .run = run};

}  // namespace stretto::passes
