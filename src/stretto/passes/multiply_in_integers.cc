// Products of 8-bit rows with an 8-bit weight, which the importer writes down in int32
// (multiply_in_floats.cc), as one operator on bytes: the sums are scaled where they are made. What
// this pass leaves, because it has no 8-bit weight or keeps its integers, is for floats.
#include <algorithm>
#include <vector>

#include "stretto/base/cpu.h"
#include "stretto/ir/operator.h"
#include "stretto/passes/byte_operand.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"integer-linear"};

// A constant of bytes or of small integers, cast perhaps, less one zero point for all, or for each
// column.
struct Known {
  std::vector<Tensor> of;  // the constant, then the zero point if there is one
  std::vector<double> values;
};

std::optional<Known> known(const Rewriter& graph, ValueId id) {
  if (const Tensor* constant = graph.constant(id))
    return Known{{*constant}, constant->as_doubles()};
  if (const int cast = graph.maker(id, "Cast"); cast >= 0) {
    const Tensor* from = graph.constant(graph.node(cast).inputs[0]);
    if (from == nullptr || !is_byte(from->dtype())) return std::nullopt;
    return Known{{*from}, from->as_doubles()};
  }
  const int difference = graph.maker(id, "Sub");
  if (difference < 0) return std::nullopt;
  auto all = known(graph, graph.node(difference).inputs[0]);
  const auto zeros = known(graph, graph.node(difference).inputs[1]);
  if (!all || !zeros) return std::nullopt;
  const size_t count = zeros->values.size();
  const bool columns =
      graph.shape(graph.node(difference).inputs[1]) == Shape{graph.shape(id).back()};
  if (count == 0 || (count != 1 && !columns) ||
      static_cast<int64_t>(all->values.size()) != element_count(graph.shape(id))) {
    return std::nullopt;
  }
  for (size_t i = 0; i < all->values.size(); ++i) all->values[i] -= zeros->values[i % count];
  all->of.insert(all->of.end(), zeros->of.begin(), zeros->of.end());
  return all;
}

// A matrix of what int8 holds; kNone for others.
ValueId weight_of(Rewriter& graph, ValueId id, PassContext& context) {
  if (graph.shape(id).size() != 2) return kNone;
  const auto from = known(graph, id);
  if (!from || std::any_of(from->values.begin(), from->values.end(),
                           [](double v) { return v < -128 || v > 127; })) {
    return kNone;
  }
  const Shape shape = graph.shape(id);
  return graph.add_constant(graph.name(id) + ".bytes",
                            context.derive_one("in bytes", from->of, [&] {
                              Tensor weight(DType::kInt8, shape);
                              std::transform(from->values.begin(), from->values.end(),
                                             weight.mutable_values<int8_t>().begin(),
                                             [](double v) { return static_cast<int8_t>(v); });
                              return weight;
                            }));
}

// The other operand of node `n` where it is `op` of `id` and something of the same type, and has
// id's shape.
ValueId other_operand(const Rewriter& graph, int n, std::string_view op, ValueId id) {
  if (n < 0 || !graph.is(n, op)) return kNone;
  const Node& node = graph.node(n);
  if (graph.shape(node.outputs[0]) != graph.shape(id) || node.inputs[0] == node.inputs[1]) {
    return kNone;
  }
  return node.inputs[node.inputs[0] == id ? 1 : 0];
}

void rewrite(Rewriter& graph, int n, PassContext& context) {
  const Node product = graph.node(n);
  const ValueId sums = product.outputs[0];
  const int cast = graph.only_user(sums);
  if (graph.dtype(sums) != DType::kInt32 || cast < 0 || !graph.is(cast, "Cast") ||
      graph.dtype(graph.node(cast).outputs[0]) != DType::kFloat32 ||
      graph.shape(product.inputs[0]).empty() ||
      graph.shape(product.inputs[0]).back() > kMostByteSteps) {
    return;
  }
  if (graph.shape(product.inputs[1]).size() != 2 || element_count(graph.shape(sums)) == 0) return;
  const int64_t columns = graph.shape(sums).back();
  const auto bytes = bytes_of(graph, product.inputs[0]);
  if (!bytes) return;
  const ValueId weight = weight_of(graph, product.inputs[1], context);
  if (weight == kNone || !context.allow("integer-linear", product.name)) return;
  int last = cast;
  const auto result = [&] { return graph.node(last).outputs[0]; };
  ValueId scale = kNone, bias = kNone;
  const int multiply = graph.only_user(result());
  if (const ValueId other = other_operand(graph, multiply, "Mul", result()); other != kNone) {
    if (graph.shape(other).empty() || graph.shape(other) == Shape{1} ||
        graph.shape(other) == Shape{columns}) {
      scale = other;
      last = multiply;
      const int add = graph.only_user(result());
      const ValueId more = other_operand(graph, add, "Add", result());
      if (more != kNone && graph.constant(more) != nullptr && graph.shape(more) == Shape{columns}) {
        bias = more;
        last = add;
      }
    }
  }
  if (scale == kNone) {
    const float one = 1;
    scale = graph.add_constant("one", Tensor::of<float>({}, {&one, 1}));
  }
  graph.become(last, "stretto.IntegerLinear", {bytes->x, weight, scale, bytes->zero, bias}, {});
}

void run(ir::Graph& graph, PassContext& context) {
  if (usable_isa() == Isa::kPortable) return;  // whose products of integers are slower than floats
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "MatMul")) rewrite(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kMultiplyInIntegers{.name = "multiply-in-integers",
                               .summary = "products of bytes with constant weights as such",
                               .rules = kRules,
                               .run = run};

}  // namespace stretto::passes
