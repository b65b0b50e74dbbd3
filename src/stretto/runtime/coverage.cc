// stretto::check: which steps of a model have kernels.
#include <algorithm>
#include <map>

#include "stretto/base/interrupt.h"
#include "stretto/passes/pipeline.h"
#include "stretto/runtime/compile.h"
#include "stretto/runtime/memory_check.h"
#include "stretto/runtime/opening.h"
#include "stretto/stretto.h"

namespace stretto {

Coverage check(const std::string& onnx_path, const OptimizeOptions& options) {
  const InterruptScope interrupt(options.interrupt);
  ImportedModel imported = runtime::import_to_look_at(onnx_path, options);
  runtime::check_memory(imported.graph);
  auto graph = std::make_shared<ir::Graph>(std::move(imported.graph));
  passes::run_pipeline(*graph, {.disabled = options.disable});
  const kernels::Target target{
      .isa = usable_isa(),
      .accuracy = kernels::parse_accuracy(options.accuracy),
      .threads = options.threads == 0 ? cpu_info().cores : options.threads};
  runtime::Selector selector({});
  const runtime::Compiled compiled = runtime::outline(graph, target, selector);

  std::map<std::pair<std::string, std::string>, Coverage::Step> steps;  // by operator and kernel
  const auto& instructions = compiled.program.instructions;
  for (size_t i = 0; i < instructions.size(); ++i) {
    const runtime::Instruction& in = instructions[i];
    // Copies and changes of layout belong to no operator.
    if (in.op == "copy" || in.op == "reorder") continue;
    const std::string kernel(in.family != nullptr ? in.family->name : "");
    Coverage::Step& step = steps[{in.op, kernel}];
    if (step.count++ == 0) step = {.op = in.op, .kernel = kernel, .count = 1, .first = in.node};
    step.flops += compiled.explanations[i].flops;
  }
  Coverage coverage{.notes = std::move(imported.notes)};
  for (auto& [key, step] : steps) coverage.steps.push_back(std::move(step));
  std::stable_sort(coverage.steps.begin(), coverage.steps.end(), [](const auto& a, const auto& b) {
    if (a.kernel.empty() != b.kernel.empty()) return a.kernel.empty();
    return a.flops > b.flops;
  });
  return coverage;
}

}  // namespace stretto
