// Runs a graph with the operators' references, node by node: slow, simple, the definition of right.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "stretto/base/team.h"
#include "stretto/ir/graph.h"

namespace stretto::ir {

struct InterpretOptions {
  bool float64 = true;         // compute float32 graphs in double precision throughout
  ThreadTeam* team = nullptr;  // optional
  // Called with every computed value, in order; for bisecting and calibration.
  std::function<void(ValueId, const Tensor&)> observe;
};

// Outputs in graph order, converted back to the types the graph declares. Inputs in graph order; a
// wrong count, type or shape throws InvalidArgument naming the input.
std::vector<Tensor> interpret(const Graph& graph, std::span<const Tensor> inputs,
                              const InterpretOptions& options = {});

// Evaluates one node whose inputs are all known, in the tensors' own types (constant folding).
std::vector<Tensor> evaluate(const Graph& graph, const Node& node, std::span<const Tensor> inputs,
                             ThreadTeam* team = nullptr);

}  // namespace stretto::ir
