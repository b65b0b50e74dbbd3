#include "stretto/runtime/lowering/lowering.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/ir/operator.h"

namespace stretto::runtime {
namespace {

bool fits_any(const kernels::Family& family, const Variant& variant) {
  for (int row = 0; row < family.rows; ++row) {
    if (family.fits(row, variant.problem.data()).ok) return true;
  }
  return false;
}

}  // namespace

bool Lowering::add(Step step) {
  std::erase_if(step.variants, [&](const Variant& v) { return !fits_any(*step.family, v); });
  if (step.variants.empty()) return false;
  for (const Variant& v : step.variants) {
    STRETTO_CHECK(v.inputs.size() == step.inputs.size() && v.outputs.size() == step.outputs.size(),
                  "{}: variant of {} has layouts for {} inputs, step has {}", step.node->name,
                  step.family->name, v.inputs.size(), step.inputs.size());
  }
  steps_.push_back(std::move(step));
  return true;
}

void Lowering::add_view(const ir::Node& node, ir::ValueId input, ir::ValueId output, int64_t offset,
                        std::vector<std::pair<Layout, Layout>> also) {
  Step step{.kind = StepKind::kView,
            .inputs = {input},
            .outputs = {output},
            .view_offset = offset,
            .node = &node};
  step.variants.push_back({{}, {Layout::kPlain}, {Layout::kPlain}});
  for (const auto& [from, to] : also) step.variants.push_back({{}, {from}, {to}});
  steps_.push_back(std::move(step));
}

void Lowering::add_join(const ir::Node& node, std::vector<ir::ValueId> inputs, ir::ValueId output,
                        bool blocked) {
  const size_t count = inputs.size();
  Step step{
      .kind = StepKind::kJoin, .inputs = std::move(inputs), .outputs = {output}, .node = &node};
  const auto all = [&](Layout layout) {
    step.variants.push_back({{}, std::vector<Layout>(count, layout), {layout}});
  };
  all(Layout::kPlain);
  if (blocked) all(Layout::kBlocked);
  steps_.push_back(std::move(step));
}

bool same_in_both_layouts(const Shape& shape, int block) {
  return shape.size() == 4 && shape[2] * shape[3] == 1 && shape[1] % block == 0;
}

Lowered lower(const std::shared_ptr<ir::Graph>& graph, const kernels::Target& target) {
  // A copy (constants are shared): lowering adds temporaries that the model must not keep.
  Lowered lowered{.graph = std::make_shared<ir::Graph>(*graph), .steps = {}};
  Lowering context(*lowered.graph, target, lowered.steps);
  for (const ir::Node& node : lowered.graph->nodes) {
    const auto rules = lowering_rules();
    const auto rule = std::find_if(rules.begin(), rules.end(),
                                   [&](const LoweringRule& r) { return r.op == node.op->name; });
    const size_t before = lowered.steps.size();
    if (rule != rules.end() && rule->lower(context, node)) continue;
    STRETTO_CHECK(lowered.steps.size() == before, "{}: half-lowered", node.name);
    Step step{.kind = StepKind::kInterpret, .node = &node};
    for (ir::ValueId id : node.inputs) {
      if (id != ir::kNone) step.inputs.push_back(id);
    }
    for (ir::ValueId id : node.outputs) {
      if (id != ir::kNone) step.outputs.push_back(id);
    }
    step.variants.push_back({{},
                             std::vector<Layout>(step.inputs.size(), Layout::kPlain),
                             std::vector<Layout>(step.outputs.size(), Layout::kPlain)});
    lowered.steps.push_back(std::move(step));
  }
  return lowered;
}

}  // namespace stretto::runtime
