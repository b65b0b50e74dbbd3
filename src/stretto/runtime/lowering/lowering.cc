#include "stretto/runtime/lowering/lowering.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/ir/operator.h"

namespace stretto::runtime {
namespace {

bool fits_any(const kernels::Family& family, const Variant& variant) {
  for (int row = 0; row < family.rows; ++row) {
    if (family.fits(row, variant.problem.data()).ok) return true;
  }
  return false;
}

// What a kernel will read or write against what is there: a problem that describes other tensors
// than the step's would send kernels out of bounds, whatever made it so.
void check_tensors(const Step& step, const char* kind, const std::vector<kernels::TensorInfo>& said,
                   size_t count, const auto& tensor, const auto& layout) {
  STRETTO_CHECK(said.size() == count, "{}: {} takes {} {}s, the step has {}", step.node->name,
                step.family->name, said.size(), kind, count);
  for (size_t i = 0; i < count; ++i) {
    const auto [shape, dtype] = tensor(i);
    STRETTO_CHECK(element_count(said[i].shape) == element_count(shape) && said[i].dtype == dtype &&
                      said[i].layout == layout(i),
                  "{}: {} {} {} is {} {}, the problem says {} {}", step.node->name,
                  step.family->name, kind, i, dtype_name(dtype), shape_text(shape),
                  dtype_name(said[i].dtype), shape_text(said[i].shape));
  }
}

void check_problem(const ir::Graph& graph, const Step& step, const Variant& variant) {
  const kernels::Signature said = step.family->signature(variant.problem.data());
  const auto value = [&](const std::vector<ir::ValueId>& ids) {
    return [&](size_t i) {
      const ir::Value& v = graph.value(ids[i]);
      return std::pair<const Shape&, DType>(*v.shape, v.dtype);
    };
  };
  const auto constant = [&](size_t i) {
    return std::pair<const Shape&, DType>(step.constants[i].shape(), step.constants[i].dtype());
  };
  STRETTO_CHECK(
      variant.inputs.size() == step.inputs.size() && variant.outputs.size() == step.outputs.size(),
      "{}: a variant of {} has layouts for {} inputs and {} outputs", step.node->name,
      step.family->name, variant.inputs.size(), variant.outputs.size());
  check_tensors(step, "input", said.inputs, step.inputs.size(), value(step.inputs),
                [&](size_t i) { return variant.inputs[i]; });
  check_tensors(step, "output", said.outputs, step.outputs.size(), value(step.outputs),
                [&](size_t i) { return variant.outputs[i]; });
  check_tensors(step, "constant", said.constants, step.constants.size(), constant,
                [](size_t) { return Layout::kPlain; });
}

// Whether inference already knows everything the node makes.
bool is_known(const ir::Graph& graph, const ir::Node& node) {
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ir::ValueId id) {
    return id == ir::kNone || graph.value(id).is_constant();
  });
}

// Whether an operand or a result has no elements. Such nodes go to the reference: kernels plan with
// quotients of dimensions, and next to a zero the other dimensions may be anything.
bool has_empty_tensor(const ir::Graph& graph, const ir::Node& node) {
  const auto empty = [&](ir::ValueId id) {
    return id != ir::kNone && element_count(*graph.value(id).shape) == 0;
  };
  return std::any_of(node.inputs.begin(), node.inputs.end(), empty) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), empty);
}

}  // namespace

bool Lowering::add(Step step) {
  std::erase_if(step.variants, [&](const Variant& v) { return !fits_any(*step.family, v); });
  if (step.variants.empty()) return false;
  for (const Variant& v : step.variants) check_problem(graph_, step, v);
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

Lowered lower(const std::shared_ptr<ir::Graph>& graph, const kernels::Target& target,
              const LowerOptions& options) {
  // A copy (constants are shared): lowering adds temporaries that the model must not keep.
  Lowered lowered{.graph = std::make_shared<ir::Graph>(*graph), .steps = {}};
  Lowering context(*lowered.graph, target, options, lowered.steps);
  for (const ir::Node& node : lowered.graph->nodes) {
    check_interrupt();
    if (is_known(*lowered.graph, node)) continue;
    for (ir::ValueId id : node.outputs) {
      STRETTO_CHECK(id == ir::kNone || !lowered.graph->value(id).is_constant(),
                    "{}: only some of its outputs are constant", node.name);
    }
    const LoweringRule* rule = find_lowering_rule(node.op->name);
    const size_t before = lowered.steps.size();
    const bool empty = has_empty_tensor(*lowered.graph, node);
    if (!empty && rule != nullptr && rule->lower(context, node)) continue;
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
