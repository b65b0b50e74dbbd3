#include <fmt/format.h>

#include "stretto/base/cpu.h"
#include "stretto/base/interrupt.h"
#include "stretto/ir/text.h"
#include "stretto/passes/bisect.h"
#include "stretto/passes/pipeline.h"
#include "stretto/runtime/opening.h"
#include "stretto/runtime/sample_inputs.h"
#include "stretto/stretto.h"

namespace stretto {

std::vector<std::pair<std::string, std::string>> list_passes() {
  std::vector<std::pair<std::string, std::string>> list;
  for (const passes::Pass* pass : passes::pipeline()) {
    list.emplace_back(pass->name, pass->summary);
  }
  return list;
}

Inspection inspect(const std::string& onnx_path, const OptimizeOptions& options) {
  const InterruptScope interrupt(options.interrupt);
  ImportedModel imported = runtime::import_to_look_at(onnx_path, options);
  Inspection inspection{.before = ir::to_text(imported.graph, {.max_constant_elements = 16})};
  const passes::PipelineReport report =
      passes::run_pipeline(imported.graph, {.disabled = options.disable});
  inspection.after = ir::to_text(imported.graph, {.max_constant_elements = 16});
  for (const passes::Fired& f : report.fired) {
    inspection.fired.push_back({f.pass, f.rule, f.node});
  }
  return inspection;
}

std::string bisect(const std::string& onnx_path, const OptimizeOptions& options, double tolerance) {
  const InterruptScope interrupt(options.interrupt);
  const ImportedModel imported = runtime::import_to_look_at(onnx_path, options);
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
