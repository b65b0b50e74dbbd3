// Lets transposes sink: past elementwise nodes and concatenations whose inputs are all transposed
// alike, until they meet one that undoes them, and both go, or can sink no further. This is what
// models converted from channels-last frameworks need.
#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"transpose-below-elementwise", "transpose-below-concat",
                                       "transpose-pair"};

std::vector<int64_t> inverse(const std::vector<int64_t>& perm) {
  std::vector<int64_t> inverted(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverted[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return inverted;
}

// A constant that varies along at most one axis, as it is before the transpose; undefined
// otherwise.
Tensor before_transpose(const Tensor& constant, const std::vector<int64_t>& perm) {
  const auto long_axes = std::count_if(constant.shape().begin(), constant.shape().end(),
                                       [](int64_t dim) { return dim != 1; });
  if (long_axes > 1 || constant.rank() > static_cast<int64_t>(perm.size())) return {};
  Shape padded(perm.size() - constant.shape().size(), 1);
  padded.insert(padded.end(), constant.shape().begin(), constant.shape().end());
  Shape shape(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) shape[static_cast<size_t>(perm[i])] = padded[i];
  return constant.reshaped(shape);
}

// The permutation that every non-constant input of n is a transpose by, when all are used only
// here.
std::vector<int64_t> common_permutation(const Rewriter& graph, int n) {
  std::vector<int64_t> common;
  for (ValueId id : graph.node(n).inputs) {
    if (id == kNone || graph.constant(id) != nullptr) continue;
    const int transpose = graph.maker(id, "Transpose");
    if (transpose < 0 || graph.only_user(id) != n) return {};
    const auto perm = permutation(graph, transpose);
    if (!common.empty() && perm != common) return {};
    common = perm;
  }
  return common;
}

bool transposable(const Rewriter& graph, int n) {
  const Node& node = graph.node(n);
  const std::string_view op = node.op->name;
  if (op == "Concat") return true;
  return node.op->name != "PRelu" && match_elementwise(graph, n).has_value();
}

void sink(Rewriter& graph, int n, PassContext& context) {
  if (!transposable(graph, n)) return;
  const Node node = graph.node(n);
  const auto perm = common_permutation(graph, n);
  const Shape shape = graph.shape(node.outputs[0]);
  if (perm.empty() || perm.size() != shape.size()) return;
  const bool concat = node.op->name == "Concat";
  std::vector<Tensor> constants(node.inputs.size());
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == kNone) continue;
    const Tensor* constant = graph.constant(node.inputs[i]);
    if (constant == nullptr) {
      // A transposed input that is broadcast would be broadcast along another axis.
      if (!concat && graph.shape(node.inputs[i]) != shape) return;
      continue;
    }
    if (concat) return;
    constants[i] = constant->count() == 1 && constant->rank() == 0
                       ? *constant
                       : before_transpose(*constant, perm);
    if (!constants[i].defined()) return;
  }
  const bool allowed = concat ? context.allow("transpose-below-concat", node.name)
                              : context.allow("transpose-below-elementwise", node.name);
  if (!allowed) return;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    if (id == kNone) {
      inputs.push_back(kNone);
    } else if (constants[i].defined()) {
      inputs.push_back(graph.add_constant(graph.name(id), constants[i]));
    } else {
      inputs.push_back(graph.node(graph.maker(id, "Transpose")).inputs[0]);
    }
  }
  Attributes attributes = node.attributes;
  if (concat) {
    const auto rank = static_cast<int64_t>(perm.size());
    const int64_t axis = normalize_axis(attributes.integer("axis", 0), rank, "axis");
    attributes.set("axis", perm[static_cast<size_t>(axis)]);
  }
  Shape before(shape.size());
  for (size_t i = 0; i < perm.size(); ++i) before[static_cast<size_t>(perm[i])] = shape[i];
  const ValueId y = graph.insert(n, node.op->name, inputs, attributes, graph.dtype(node.outputs[0]),
                                 before, node.name + ".sunk");
  Attributes transpose;
  transpose.set("perm", perm);
  graph.become(n, "Transpose", {y}, std::move(transpose));
}

// Done here and not left to remove-identity, so that the next elementwise node sees its true
// inputs.
void cancel(Rewriter& graph, int n, PassContext& context) {
  const Node& node = graph.node(n);
  const int before = graph.maker(node.inputs[0], "Transpose");
  if (before < 0 || permutation(graph, n) != inverse(permutation(graph, before))) return;
  const ValueId x = graph.node(before).inputs[0];
  if (graph.can_replace(node.outputs[0], x) && context.allow("transpose-pair", node.name)) {
    graph.replace(node.outputs[0], x);
  }
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  // Inserted nodes come after this loop's end mark: they have already sunk.
  const int count = rewriter.count();
  for (int n = 0; n < count; ++n) {
    if (!rewriter.alive(n) || rewriter.constant(rewriter.node(n).outputs[0]) != nullptr) continue;
    if (rewriter.is(n, "Transpose"))
      cancel(rewriter, n, context);
    else
      sink(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kEliminateTranspose{.name = "eliminate-transpose",
                               .summary = "transposes below elementwise nodes, where they cancel",
                               .rules = kRules,
                               .run = run};

}  // namespace stretto::passes
