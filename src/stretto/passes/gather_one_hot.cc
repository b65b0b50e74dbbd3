// A one-hot matrix times a table is a choice of rows, which JAX exports spell out:
//   Cast(Equal(index, 0 1 2 ... n-1)) @ table[n, m]
// An index outside chooses no row, hence the rows of zeros at either end of the table here.
#include <algorithm>
#include <array>
#include <cmath>

#include "stretto/ir/operator.h"
#include "stretto/passes/match.h"
#include "stretto/passes/pass_list.h"

namespace stretto::passes {
namespace {

constexpr std::string_view kRules[] = {"gather-one-hot"};

// Whether `id` is 0, 1, ... along the last axis, of `count` elements in all.
bool counts_up(const Rewriter& graph, ValueId id, int64_t count) {
  const Tensor* constant = graph.constant(id);
  if (constant == nullptr || constant->count() != count || graph.shape(id).empty() ||
      graph.shape(id).back() != count) {
    return false;
  }
  const std::vector<double> values = constant->as_doubles();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != static_cast<double>(i)) return false;
  }
  return true;
}

// The indices whose one-hot rows, of `count` elements, `id` is; kNone if it is not that.
ValueId indices_of(const Rewriter& graph, ValueId id, int64_t count) {
  const int cast = graph.maker(id, "Cast");
  if (cast < 0) return kNone;
  const int equal = graph.maker(graph.node(cast).inputs[0], "Equal");
  if (equal < 0) return kNone;
  const std::vector<ValueId>& of = graph.node(equal).inputs;
  for (size_t side : {0, 1}) {
    const ValueId index = of[1 - side];
    const DType dtype = graph.dtype(index);
    if ((dtype != DType::kInt32 && dtype != DType::kInt64) || !counts_up(graph, of[side], count)) {
      continue;
    }
    Shape rows = graph.shape(index);
    if (rows.empty() || rows.back() != 1) continue;
    rows.back() = count;
    if (rows == graph.shape(id)) return index;
  }
  return kNone;
}

// The table between two rows of zeros.
Tensor framed(const Tensor& table) {
  const int64_t rows = table.dim(0), columns = table.dim(1);
  Tensor out(DType::kFloat32, {rows + 2, columns});
  const std::span<float> to = out.mutable_values<float>();
  std::ranges::fill(to, 0.0f);
  std::ranges::copy(table.values<float>(), to.begin() + columns);
  return out;
}

void rewrite(Rewriter& graph, int n, PassContext& context) {
  const Node node = graph.node(n);
  const Tensor* found = graph.constant(node.inputs[1]);
  if (found == nullptr || found->rank() != 2 || found->dtype() != DType::kFloat32) return;
  const Tensor table = *found;
  const int64_t count = table.dim(0);
  if (table.count() == 0 || graph.shape(node.inputs[0]).size() < 2) return;
  const ValueId index = indices_of(graph, node.inputs[0], count);
  if (index == kNone || element_count(graph.shape(index)) == 0) return;
  // Zero times infinity would be NaN.
  const auto finite = [](float v) { return std::isfinite(v); };
  if (!std::ranges::all_of(table.values<float>(), finite)) return;
  if (!context.allow("gather-one-hot", node.name)) return;
  const DType dtype = graph.dtype(index);
  const Shape column = graph.shape(index);
  const auto number = [&](double value) {
    return graph.add_constant("number", Tensor::of<double>({}, {&value, 1}).converted(dtype));
  };
  const auto insert = [&](std::string_view op, std::vector<ValueId> inputs, Shape shape) {
    return graph.insert(n, op, std::move(inputs), {}, dtype, std::move(shape),
                        node.name + "." + std::string(op));
  };
  const ValueId low = insert("Max", {index, number(-1)}, column);
  const ValueId kept = insert("Min", {low, number(static_cast<double>(count))}, column);
  const ValueId places = insert("Add", {kept, number(1)}, column);
  const Shape list(column.begin(), column.end() - 1);
  const ValueId rows =
      insert("Reshape", {places, graph.add_constant("shape", Tensor::int64s(list))}, list);
  const Tensor around =
      context.derive_one("between rows of zeros", std::array{table}, [&] { return framed(table); });
  graph.become(n, "Gather",
               {graph.add_constant(graph.name(node.inputs[1]) + ".framed", around), rows}, {});
}

void run(ir::Graph& graph, PassContext& context) {
  Rewriter rewriter(graph);
  for (int n = 0; n < rewriter.count(); ++n) {
    if (rewriter.is(n, "MatMul")) rewrite(rewriter, n, context);
  }
  rewriter.finish();
}

}  // namespace

const Pass kGatherOneHot{.name = "gather-one-hot",
                         .summary = "one-hot rows times a table as rows of it",
                         .rules = kRules,
                         .run = run};

}  // namespace stretto::passes
