// What every variant of a step would cost, and which row a node's problem runs.
#pragma once

#include <string>
#include <unordered_map>

#include "stretto/kernels/reorder/problem.h"
#include "stretto/runtime/compile.h"
#include "stretto/runtime/layout.h"
#include "stretto/runtime/select.h"

namespace stretto::runtime {

// The selector, with rows forced for single nodes before it. Both must outlive it.
class NodeSelector {
 public:
  NodeSelector(Selector& selector, const CompileOptions& options)
      : selector(selector), options(options) {}

  Selector& selector;
  const CompileOptions& options;

  // `constants` are those that the kernel packs. Throws InvalidArgument when a forced row does not
  // exist; whether it fits is for the caller.
  Selection select(const std::string& node, const kernels::Family& family, const void* problem,
                   std::span<const Tensor> constants) const;

 private:
  Selection keep_to_shared(Selection selection, const void* problem,
                           std::span<const Tensor> constants) const;
  // What keep_to_shared() said of a problem, by its address: costs are asked for many times.
  mutable std::unordered_map<const void*, Selection> kept_;
};

// Measures every kernel variant that may turn out best, within the selector's budget.
void measure_variants(const Lowered& lowered, const NodeSelector& nodes);

// The costs that choose_layouts weighs. Refers to its arguments.
Costs selected_costs(const Lowered& lowered, const NodeSelector& nodes,
                     const kernels::Target& target);

// The problem of moving a rank-4 value from one layout to another.
kernels::ReorderProblem reorder_problem(const Shape& shape, Layout from, Layout to,
                                        const kernels::Target& target);

}  // namespace stretto::runtime
