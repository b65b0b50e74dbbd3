#include "stretto/kernels/reduce/problem.h"

#include <optional>

#include "stretto/runtime/lowering/rules.h"

namespace stretto::runtime {
namespace {

std::optional<kernels::Reduction> reduction_of(std::string_view op) {
  struct Row {
    std::string_view op;
    kernels::Reduction kind;
  };
  static constexpr Row kRows[] = {
      {"ReduceL1", kernels::Reduction::kL1},   {"ReduceL2", kernels::Reduction::kL2},
      {"ReduceMax", kernels::Reduction::kMax}, {"ReduceMean", kernels::Reduction::kMean},
      {"ReduceMin", kernels::Reduction::kMin}, {"ReduceProd", kernels::Reduction::kProd},
      {"ReduceSum", kernels::Reduction::kSum}, {"ReduceSumSquare", kernels::Reduction::kSumSquare},
  };
  for (const Row& row : kRows) {
    if (row.op == op) return row.kind;
  }
  return std::nullopt;
}

}  // namespace

bool lower_reduce(Lowering& l, const ir::Node& node) {
  const auto kind = reduction_of(node.op->name);
  const Shape& x = l.shape(node.inputs[0]);
  const DType dtype = l.graph().value(node.inputs[0]).dtype;
  if (!kind || !kernels::can_reduce(*kind, dtype)) return false;
  std::vector<int64_t> axes;
  if (node.inputs.size() > 1 && node.inputs[1] != ir::kNone) {
    const Tensor* given = l.constant(node.inputs[1]);
    if (given == nullptr) return false;
    axes = given->as_int64s();
  }
  if (axes.empty()) {
    if (node.attributes.integer("noop_with_empty_axes", 0) != 0) {
      // Nothing is joined, but squares and magnitudes are still taken.
      const bool same = *kind != kernels::Reduction::kL1 && *kind != kernels::Reduction::kL2 &&
                        *kind != kernels::Reduction::kSumSquare;
      return same && lower_view(l, node);
    }
    for (size_t i = 0; i < x.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  try {
    const auto p = kernels::reduce_problem(l.target(), x, axes, *kind, dtype);
    return l.add<kernels::ReduceProblem>(node, kernels::kReduce, {node.inputs[0]},
                                         {node.outputs[0]},
                                         {{p, {Layout::kPlain}, {Layout::kPlain}}});
  } catch (const Unsupported&) {
    return false;
  }
}

}  // namespace stretto::runtime
