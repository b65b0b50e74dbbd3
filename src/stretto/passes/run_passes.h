// run_pipeline() over a list of the caller's own.
#pragma once

#include "stretto/passes/pipeline.h"

namespace stretto::passes {

PipelineReport run_passes(std::span<const Pass* const> passes, ir::Graph& graph,
                          const PipelineOptions& options = {});

}  // namespace stretto::passes
