#include "stretto/runtime/compile.h"

#include <fmt/ranges.h>

#include "stretto/runtime/costs.h"
#include "stretto/runtime/emission.h"
#include "stretto/runtime/layout.h"

namespace stretto::runtime {
namespace {

Emission emit_cheapest(const Lowered& lowered, const NodeSelector& nodes,
                       const kernels::Target& target) {
  const std::vector<PlacedStep> placed =
      choose_layouts(lowered, selected_costs(lowered, nodes, target));
  return emit(lowered, placed, nodes, target);
}

// Says where the program's weights come from.
void name_sources(Emission& emission) {
  Compiled& compiled = emission.compiled;
  compiled.packed_from.resize(compiled.program.instructions.size());
  for (const PackJob& job : emission.pack_jobs) {
    compiled.packed_from[job.instruction] = job.step->constants;
  }
  for (const ConstantBlob& blob : emission.constants) {
    compiled.operand_blobs.push_back(
        {blob.blob, emission.graph().value(blob.value).constant, blob.layout});
  }
}

}  // namespace

Compiled compile(std::shared_ptr<ir::Graph> graph, const kernels::Target& target,
                 Selector& selector, const CompileOptions& options) {
  const Lowered lowered = lower(std::move(graph), target, options.lower);
  const NodeSelector nodes(selector, options);
  measure_variants(lowered, nodes);
  Emission emission = emit_cheapest(lowered, nodes, target);
  place(emission);
  fill_blobs(emission, options);
  name_sources(emission);
  return std::move(emission.compiled);
}

Compiled outline(std::shared_ptr<ir::Graph> graph, const kernels::Target& target,
                 Selector& selector) {
  const CompileOptions options;
  return emit_cheapest(lower(std::move(graph), target), NodeSelector(selector, options), target)
      .compiled;
}

std::string plan(std::shared_ptr<ir::Graph> graph, const kernels::Target& target,
                 Selector& selector, const CompileOptions& options) {
  const Lowered lowered = lower(std::move(graph), target);
  const Emission emission = emit_cheapest(lowered, NodeSelector(selector, options), target);
  std::string text;
  for (size_t i = 0; i < emission.operands.size(); ++i) {
    const Instruction& instruction = emission.compiled.program.instructions[i];
    const Operands& operands = emission.operands[i];
    if (instruction.family != nullptr) {
      text += fmt::format("{} {}", instruction.family->row_name(instruction.row),
                          emission.compiled.explanations[i].problem);
    } else {
      text += fmt::format("{} {}", instruction.op, instruction.copy_bytes);
    }
    text += fmt::format(": {} > {}\n", fmt::join(operands.inputs, " "),
                        fmt::join(operands.outputs, " "));
  }
  return text;
}

}  // namespace stretto::runtime
