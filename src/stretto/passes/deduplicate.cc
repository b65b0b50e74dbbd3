// Common subexpressions: of two nodes with the same operator, attributes and inputs one stays.
// Small constants count as the same input when their contents are.
#include <unordered_map>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"
#include "stretto/passes/rewriter.h"
#include "stretto/tensor/identity.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"common-subexpression"};

std::string key_of(const Rewriter& graph, const Node& node) {
  std::string key = operation(node);
  for (ValueId id : node.inputs) {
    const Tensor* constant = graph.constant(id);
    key += constant != nullptr ? " constant " : " value ";
    if (constant != nullptr) {
      key += identity(*constant);
    } else {
      key += std::to_string(id);
    }
  }
  for (ValueId id : node.outputs) key += id == kNone ? '0' : '1';
  return key;
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  std::unordered_map<std::string, int> first;
  for (int n = 0; n < rewriter.count(); ++n) {
    if (!rewriter.alive(n) || rewriter.node(n).op->random) continue;
    const auto [at, fresh] = first.try_emplace(key_of(rewriter, rewriter.node(n)), n);
    if (fresh) continue;
    const std::vector<ValueId> from = rewriter.node(n).outputs;
    const std::vector<ValueId> to = rewriter.node(at->second).outputs;
    bool possible = rewriter.alive(at->second);
    for (size_t i = 0; i < from.size(); ++i) {
      possible = possible && (from[i] == kNone || rewriter.can_replace(from[i], to[i]));
    }
    if (!possible || !context.allow("common-subexpression", rewriter.node(n).name)) continue;
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] != kNone) rewriter.replace(from[i], to[i]);
    }
  }
  rewriter.finish();
}

}  // namespace

const Pass kDeduplicate{
    .name = "deduplicate", .summary = "compute each thing once", .rules = kRules, .run = run};

}  // namespace stretto::passes
