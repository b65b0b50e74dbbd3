#include "stretto/runtime/compile.h"

#include "stretto/runtime/costs.h"
#include "stretto/runtime/emission.h"
#include "stretto/runtime/layout.h"

namespace stretto::runtime {

Compiled compile(std::shared_ptr<ir::Graph> graph, const kernels::Target& target,
                 Selector& selector, const CompileOptions& options) {
  const Lowered lowered = lower(std::move(graph), target);
  const NodeSelector nodes{selector, options};
  measure_variants(lowered, nodes);
  const std::vector<PlacedStep> placed =
      choose_layouts(lowered, selected_costs(lowered, nodes, target));
  Emission emission = emit(lowered, placed, nodes, target);
  place(emission);
  fill_blobs(emission, options);
  return std::move(emission.compiled);
}

}  // namespace stretto::runtime
