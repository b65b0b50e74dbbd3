// Evaluates nodes whose inputs are all known, and drops those whose result inference already knows.
#include <algorithm>

#include "stretto/ir/interpreter.h"
#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"drop-known", "drop-shape-source", "fold-constant"};

// A result may be this much larger than what it is made from: a broadcast table is cheaper to make
// again than to keep in the artefact. Weights that are stored in few bits are not: a result of no
// more elements may have any size.
constexpr int64_t kGrowthBytes = 1 << 20;

// Tables that arithmetic makes of vectors, as the filters of a resampler, may grow by more:
// computing them in every run costs more than reading them, and convolutions of weights that are
// not known are slow. In all, a model grows by no more than kTables, or as much as its constants
// have when that is more. Masks that are broadcast stay nodes.
constexpr int64_t kTableBytes = 4 << 20, kTables = 16 << 20;

// Results that take more floating point operations than this are left to the program.
constexpr double kFlops = 1e9;

// What is made of less is evaluated faster than it is found.
constexpr int64_t kKeptBytes = 4096;

int64_t bytes(const Rewriter& graph, const std::vector<ValueId>& ids) {
  int64_t sum = 0;
  for (ValueId id : ids) {
    if (id == kNone) continue;
    sum += element_count(graph.shape(id)) * static_cast<int64_t>(dtype_bytes(graph.dtype(id)));
  }
  return sum;
}

int64_t most_elements(const Rewriter& graph, const std::vector<ValueId>& ids) {
  int64_t most = 0;
  for (ValueId id : ids) {
    if (id != kNone) most = std::max(most, element_count(graph.shape(id)));
  }
  return most;
}

bool is_arithmetic(const Node& node) {
  constexpr std::string_view kArithmetic[] = {"Add", "Sub", "Mul", "Div", "Pow", "MatMul"};
  return std::ranges::find(kArithmetic, node.op->name) != std::end(kArithmetic);
}

// Whether the result is too large for a constant; takes what a table grows by from `left`.
bool grows(const Rewriter& graph, const Node& node, int64_t& left) {
  const int64_t growth = bytes(graph, node.outputs) - bytes(graph, node.inputs);
  if (growth <= kGrowthBytes) return false;
  if (node.outputs.size() == 1 &&
      most_elements(graph, node.outputs) <= most_elements(graph, node.inputs)) {
    return false;
  }
  if (!is_arithmetic(node) || growth > std::min(kTableBytes, left)) return true;
  left -= growth;
  return false;
}

// Random numbers in the shape of a tensor, which need not be there for it.
void drop_shape_source(Rewriter& rewriter, int n, PassContext& context) {
  const Node& node = rewriter.node(n);
  if (node.inputs.empty() || !context.allow("drop-shape-source", node.name)) return;
  constexpr std::string_view kLike = "Like";
  const std::string_view op = node.op->name.substr(0, node.op->name.size() - kLike.size());
  Attributes attributes = node.attributes;
  attributes.set("dtype", std::string(dtype_name(rewriter.dtype(node.outputs[0]))));
  attributes.set("shape", rewriter.shape(node.outputs[0]));
  rewriter.become(n, op, {}, std::move(attributes));
}

int64_t constant_bytes(const ir::Graph& graph) {
  int64_t sum = 0;
  for (const ir::Value& value : graph.values) {
    if (value.is_constant()) sum += static_cast<int64_t>(value.constant.bytes());
  }
  return sum;
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  int64_t left = std::max(kTables, constant_bytes(graph));
  for (int n = 0; n < rewriter.count(); ++n) {
    if (!rewriter.alive(n)) continue;
    const Node& node = rewriter.node(n);
    const auto known = [&](ValueId id) { return id == kNone || rewriter.constant(id) != nullptr; };
    if (std::all_of(node.outputs.begin(), node.outputs.end(), known)) {
      if (!context.allow("drop-known", node.name)) continue;
      std::vector<Tensor> outputs;
      for (ValueId id : node.outputs) {
        outputs.push_back(id == kNone ? Tensor() : *rewriter.constant(id));
      }
      rewriter.settle(n, std::move(outputs));
      continue;
    }
    if (node.op->random) {
      drop_shape_source(rewriter, n, context);
      continue;
    }
    if (!std::all_of(node.inputs.begin(), node.inputs.end(), known)) continue;
    if (node.op->flops != nullptr && node.op->flops(rewriter.graph(), node) > kFlops) continue;
    if (grows(rewriter, node, left)) continue;
    if (!context.allow("fold-constant", node.name)) continue;
    std::vector<Tensor> inputs;
    for (ValueId id : node.inputs) {
      inputs.push_back(id == kNone ? Tensor() : *rewriter.constant(id));
    }
    const auto evaluate = [&] { return ir::evaluate(rewriter.graph(), node, inputs); };
    const bool large = bytes(rewriter, node.inputs) > kKeptBytes;
    rewriter.settle(n, large ? context.derive(operation(node), inputs, evaluate) : evaluate());
  }
  rewriter.finish();
}

}  // namespace

const Pass kFoldConstants{.name = "fold-constants",
                          .summary = "evaluate what depends on no input of the model",
                          .rules = kRules,
                          .run = run};

}  // namespace stretto::passes
