#include <fmt/format.h>

#include "stretto/base/cpu.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/random.h"
#include "stretto/ir/not_straight.h"
#include "stretto/ir/text.h"
#include "stretto/passes/bisect.h"
#include "stretto/passes/pipeline.h"
#include "stretto/runtime/opening.h"
#include "stretto/runtime/sample_inputs.h"
#include "stretto/runtime/staged_trial.h"
#include "stretto/stretto.h"

namespace stretto {

std::vector<std::pair<std::string, std::string>> list_passes() {
  std::vector<std::pair<std::string, std::string>> list;
  for (const passes::Pass* pass : passes::pipeline()) {
    list.emplace_back(pass->name, pass->summary);
  }
  return list;
}

namespace {

void add_graph(ir::Graph graph, const OptimizeOptions& options, Inspection& inspection) {
  inspection.before += ir::to_text(graph, {.max_constant_elements = 16});
  const passes::PipelineReport report = passes::run_pipeline(graph, {.disabled = options.disable});
  inspection.after += ir::to_text(graph, {.max_constant_elements = 16});
  for (const passes::Fired& f : report.fired) {
    inspection.fired.push_back({f.pass, f.rule, f.node});
  }
}

// The pieces that a run on given or made-up inputs meets.
Inspection inspect_staged(const std::string& path, const OptimizeOptions& options) {
  auto source = runtime::open_staged_source(path, options);
  const runtime::StagedFace face =
      runtime::staged_face(*source->reader, *source->body, path, options);
  const kernels::Target target{.isa = usable_isa(), .threads = 1};
  runtime::Staged staged(source, face.inputs, std::make_shared<runtime::Siblings>(),
                         {.target = target, .keep_graphs = true});
  const runtime::StagedTrial trial = runtime::try_staged(staged, face, options);
  Inspection inspection;
  const auto say = [&](const std::string& line) {
    inspection.before += line;
    inspection.after += line;
  };
  say(fmt::format("# {} runs in stages: these are the straight pieces of a run\n",
                  face.graph.name));
  for (const runtime::StagedTrial::Seen& seen : trial.pieces) {
    say("\n");
    add_graph(*seen.piece->graph, options, inspection);
  }
  say("\n# between them:\n");
  for (const auto& [op, node] : trial.steps) say(fmt::format("#   {} \"{}\"\n", op, node));
  if (!trial.failure.empty()) say("# the run ended early: " + trial.failure + "\n");
  return inspection;
}

}  // namespace

Inspection inspect(const std::string& onnx_path, const OptimizeOptions& options) {
  const InterruptScope interrupt(options.interrupt);
  try {
    Inspection inspection;
    add_graph(runtime::import_to_look_at(onnx_path, options).graph, options, inspection);
    return inspection;
  } catch (const ir::NotStraight&) {
    return inspect_staged(onnx_path, options);
  }
}

std::string bisect(const std::string& onnx_path, const OptimizeOptions& options, double tolerance) {
  const RepeatedDraws repeated;  // or every rewrite would change the result
  const InterruptScope interrupt(options.interrupt);
  const ImportedModel imported = [&] {
    try {
      return runtime::import_to_look_at(onnx_path, options);
    } catch (const ir::NotStraight&) {
      throw_unsupported(
          "{}: parts of the model depend on values that only a run knows, and only straight-line "
          "models can be bisected; `optimize` verifies every piece of this one on its own",
          onnx_path);
    }
  }();
  std::vector<Tensor> inputs;
  for (const runtime::SampleInput& sample :
       runtime::sample_inputs(imported.graph, options.inputs)) {
    inputs.push_back(sample.tensor);
  }
  ThreadTeam team(options.threads == 0 ? cpu_info().cores : options.threads);
  const auto culprit =
      passes::bisect(imported.graph, inputs, {.disabled = options.disable}, tolerance, &team);
  if (!culprit) return "";
  return fmt::format(
      "rule {} of pass {} at node {} (application {}) moves output {} by {:.2e} of its "
      "largest value, more than {:.1e}; leave it out with --disable {}",
      culprit->fired.rule, culprit->fired.pass, culprit->fired.node, culprit->application,
      culprit->output, culprit->error, tolerance, culprit->fired.rule);
}

}  // namespace stretto
