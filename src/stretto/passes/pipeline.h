// The passes in order, and the one function that runs them.
#pragma once

#include <functional>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stretto/passes/pass.h"

namespace stretto::passes {

// Every pass, in the order they run; a pass may be listed more than once.
std::span<const Pass* const> pipeline();

struct PipelineOptions {
  std::set<std::string> disabled;                          // names of passes or rules
  int max_applications = std::numeric_limits<int>::max();  // rules stop firing after that many
  bool verify = true;                         // check the graph after each pass that changed it
  std::function<void(const Fired&)> observe;  // called with every application, just before it
  Derived* derived = nullptr;                 // constants made for other graphs of the model
  Ragged* ragged = nullptr;                   // pack the rows of real tokens, and report it here
};

struct PipelineReport {
  std::vector<Fired> fired;                             // in order
  std::vector<std::pair<std::string, double>> seconds;  // per row of pipeline(), checks included
};

// Rewrites the graph, whose dimensions are bound, in place. Throws InvalidArgument for a disabled
// name that no pass or rule has, InternalError naming the pass that broke a promise of ir::Graph or
// changed name, type or shape of a graph input or output. What infer() throws on the graph as
// given passes through.
PipelineReport run_pipeline(ir::Graph& graph, const PipelineOptions& options = {});

}  // namespace stretto::passes
