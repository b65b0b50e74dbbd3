// stretto::check: which steps of a model have kernels.
#include <algorithm>
#include <map>

#include "stretto/base/interrupt.h"
#include "stretto/ir/not_straight.h"
#include "stretto/passes/pipeline.h"
#include "stretto/runtime/compile.h"
#include "stretto/runtime/memory_check.h"
#include "stretto/runtime/opening.h"
#include "stretto/runtime/staged_trial.h"
#include "stretto/stretto.h"

namespace stretto {

namespace {

using Steps = std::map<std::pair<std::string, std::string>, Coverage::Step>;  // operator, kernel

kernels::Target target_of(const OptimizeOptions& options) {
  return {.isa = usable_isa(),
          .accuracy = kernels::parse_accuracy(options.accuracy),
          .threads = options.threads == 0 ? cpu_info().cores : options.threads};
}

void add_steps(const ir::Graph& imported, const OptimizeOptions& options, Steps& steps) {
  runtime::check_memory(imported);
  auto graph = std::make_shared<ir::Graph>(imported);
  passes::run_pipeline(*graph, {.disabled = options.disable});
  runtime::Selector selector({});
  const runtime::Compiled compiled = runtime::outline(graph, target_of(options), selector);
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
}

Coverage sorted(Steps steps, std::vector<std::string> notes) {
  Coverage coverage{.notes = std::move(notes)};
  for (auto& [key, step] : steps) coverage.steps.push_back(std::move(step));
  std::stable_sort(coverage.steps.begin(), coverage.steps.end(), [](const auto& a, const auto& b) {
    if (a.kernel.empty() != b.kernel.empty()) return a.kernel.empty();
    return a.flops > b.flops;
  });
  return coverage;
}

// What a run on given or made-up inputs meets.
Coverage check_staged(const std::string& path, const OptimizeOptions& options) {
  auto source = runtime::open_staged_source(path, options);
  const runtime::StagedFace face =
      runtime::staged_face(*source->reader, *source->body, path, options);
  const auto siblings = std::make_shared<runtime::Siblings>();
  siblings->set_making({.disabled = options.disable, .forced = {}, .known = {}});
  runtime::Staged staged(source, face.inputs, siblings,
                         {.target = target_of(options), .keep_graphs = true});
  const runtime::StagedTrial trial = runtime::try_staged(staged, face, options);
  Steps steps;
  for (const runtime::StagedTrial::Seen& seen : trial.pieces) {
    add_steps(*seen.piece->graph, options, steps);
  }
  for (const auto& [op, node] : trial.steps) {
    Coverage::Step& step = steps[{op, "between stages"}];
    if (step.count++ == 0) step = {.op = op, .kernel = "between stages", .count = 1, .first = node};
  }
  std::vector<std::string> notes = face.notes;
  notes.push_back(
      "parts of the model depend on values that only a run knows, so it runs in stages; these are "
      "the steps of a run on " +
      std::string(options.inputs.empty() ? "made-up inputs" : "the inputs that were given"));
  if (!trial.failure.empty()) notes.push_back("the run ended early: " + trial.failure);
  return sorted(std::move(steps), std::move(notes));
}

}  // namespace

Coverage check(const std::string& onnx_path, const OptimizeOptions& options) {
  const InterruptScope interrupt(options.interrupt);
  try {
    ImportedModel imported = runtime::import_to_look_at(onnx_path, options);
    Steps steps;
    add_steps(imported.graph, options, steps);
    return sorted(std::move(steps), std::move(imported.notes));
  } catch (const ir::NotStraight&) {
    return check_staged(onnx_path, options);
  }
}

}  // namespace stretto
