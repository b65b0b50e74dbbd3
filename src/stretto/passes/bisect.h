// Finds the rewrite that changes a result.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "stretto/base/team.h"
#include "stretto/passes/pipeline.h"

namespace stretto::passes {

struct Culprit {
  Fired fired;          // the rule, and the node it rewrote
  int application = 0;  // its place among all applications, from 1
  std::string output;   // the graph output that moved most; what was thrown, if something was
  double error = 0;     // largest difference, relative to the largest magnitude in that output
};

// Runs `graph` unchanged and after the first k rule applications, both in double precision on
// `inputs` (in graph order), and finds the smallest k whose outputs differ by more than `tolerance`
// of their largest magnitude; nothing when the whole pipeline stays within it. A logarithm of the
// number of applications in interpreter runs. When a later rule hides an earlier mistake, some such
// k is named, not always the first. A rule that makes the pipeline throw is named as well, with an
// infinite error. `passes`: the list to run, in order.
std::optional<Culprit> bisect(const ir::Graph& graph, std::span<const Tensor> inputs,
                              const PipelineOptions& options, double tolerance,
                              ThreadTeam* team = nullptr,
                              std::span<const Pass* const> passes = pipeline());

}  // namespace stretto::passes
