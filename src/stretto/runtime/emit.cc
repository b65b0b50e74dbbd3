#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/ir/operator.h"
#include "stretto/runtime/emission.h"

namespace stretto::runtime {
namespace {

class Emitter {
 public:
  Emitter(Emission& emission, const NodeSelector& nodes, const kernels::Target& target)
      : emission_(emission), nodes_(nodes), target_(target) {}

  void describe_faces() {
    const auto specs = [&](const std::vector<ir::ValueId>& ids) {
      std::vector<TensorSpec> list;
      for (ir::ValueId id : ids) {
        const ir::Value& v = graph().value(id);
        list.push_back({v.name, v.dtype, *v.shape});
      }
      return list;
    };
    program().target = target_;
    program().inputs = specs(graph().inputs);
    program().outputs = specs(graph().outputs);
  }

  void emit(const PlacedStep& placed) {
    if (placed.step == nullptr) return emit_reorder(placed);
    const Step& step = *placed.step;
    switch (step.kind) {
      case StepKind::kKernel:
        return emit_kernel(step, step.variants[placed.variant]);
      case StepKind::kView:
        return emit_view(step, step.variants[placed.variant]);
      case StepKind::kJoin:
        return emit_join(step, step.variants[placed.variant]);
      case StepKind::kInterpret:
        return emit_interpreted(step);
    }
  }

  // The arena's memory of an output becomes the caller's where it can; else it is copied there.
  void emit_outputs() {
    for (size_t i = 0; i < graph().outputs.size(); ++i) {
      const int s = storage_of(graph().outputs[i], Layout::kPlain);
      const auto [root, offset] = emission_.root_of(s);
      Storage& r = storage(root);
      if (r.place == Place::kArena && offset == 0 && r.bytes == storage(s).bytes) {
        r.place = Place::kOutput;
        r.index = static_cast<int32_t>(i);
        continue;
      }
      const Storage face{
          .bytes = storage(s).bytes, .place = Place::kOutput, .index = static_cast<int32_t>(i)};
      add_copy(s, 0, add_storage(face), 0, face.bytes, graph().value(graph().outputs[i]).name);
    }
  }

 private:
  const ir::Graph& graph() const { return emission_.graph(); }
  Program& program() { return emission_.program(); }

  // --- storage

  Storage& storage(int index) { return emission_.storages[index]; }

  int add_storage(const Storage& storage) {
    emission_.storages.push_back(storage);
    return static_cast<int>(emission_.storages.size()) - 1;
  }

  int storage_of(ir::ValueId id, Layout layout) {
    const auto [at, fresh] = storage_of_.try_emplace({id, layout}, 0);
    if (!fresh) return at->second;
    const ir::Value& value = graph().value(id);
    Storage s;
    s.bytes = storage_elements(*value.shape, layout, target_.block()) *
              static_cast<int64_t>(dtype_bytes(value.dtype));
    const auto& inputs = graph().inputs;
    const auto input = std::find(inputs.begin(), inputs.end(), id);
    if (value.is_constant()) {
      s.place = Place::kConstant;
      s.index = static_cast<int32_t>(program().blobs.size());
      program().blobs.push_back({.key = fmt::format("{}|{}", value.name, layout_name(layout)),
                                 .form = blob_form(kernels::packing_text(
                                     fmt::format("constant_{}", layout_name(layout)), 1,
                                     layout == Layout::kBlocked ? target_.block() : 1)),
                                 .bytes = s.bytes});
      emission_.constants.push_back({s.index, id, layout});
    } else if (layout == Layout::kPlain && input != inputs.end()) {
      s.place = Place::kInput;
      s.index = static_cast<int32_t>(input - inputs.begin());
    }
    return at->second = add_storage(s);
  }

  // To the root at once, so that a chain of views stays as flat as one.
  void lie_within(int child, int parent, int64_t offset_bytes) {
    const auto [root, offset] = emission_.root_of(parent);
    storage(child).parent = root;
    storage(child).offset_bytes = offset + offset_bytes;
  }

  // --- instructions

  void add_instruction(Instruction instruction, Operands operands, Explanation why) {
    for (int s : operands.outputs) storage(s).made_by_kernel = true;
    program().instructions.push_back(std::move(instruction));
    emission_.operands.push_back(std::move(operands));
    emission_.compiled.explanations.push_back(std::move(why));
  }

  void add_kernel(const kernels::Family& family, const void* asked, Operands operands,
                  const std::string& node, std::string_view op,
                  std::span<const Tensor> constants = {}) {
    const Selection selection = nodes_.select(node, family, asked, constants);
    const auto* from = static_cast<const std::byte*>(asked);
    std::vector<std::byte> bytes(from, from + family.problem_bytes);
    const void* problem = bytes.data();
    if (selection.panel_width != 0) {
      kernels::set_panel_width(family, bytes.data(), selection.panel_width);
    }
    if (const kernels::Fit fit = family.fits(selection.row, problem); !fit.ok) {
      throw_unsupported("{}: kernel {} was asked for but does not fit {}: {}", node,
                        family.row_name(selection.row), family.key(problem), fit.reason);
    }
    Explanation why{family.key(problem), selection, family.flops(problem)};
    add_instruction({.family = &family,
                     .row = selection.row,
                     .problem = std::move(bytes),
                     .node = node,
                     .op = std::string(op)},
                    std::move(operands), std::move(why));
  }

  void add_copy(int from, int64_t from_offset, int to, int64_t to_offset, int64_t bytes,
                const std::string& node) {
    Instruction copy{.copy_bytes = bytes, .node = node, .op = "copy"};
    copy.inputs.push_back({.offset = from_offset});
    copy.outputs.push_back({.offset = to_offset});
    add_instruction(std::move(copy), {{from}, {to}}, {});
  }

  void emit_reorder(const PlacedStep& placed) {
    const ir::Value& value = graph().value(placed.value);
    const int from = storage_of(placed.value, placed.from);
    const int to = storage_of(placed.value, placed.to);
    if (same_in_both_layouts(*value.shape, target_.block())) return lie_within(to, from, 0);
    const kernels::ReorderProblem p =
        reorder_problem(*value.shape, placed.from, placed.to, target_);
    add_kernel(kernels::kReorder, &p, {{from}, {to}}, value.name, "reorder");
  }

  void emit_kernel(const Step& step, const Variant& variant) {
    Operands operands;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      operands.inputs.push_back(storage_of(step.inputs[i], variant.inputs[i]));
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      operands.outputs.push_back(storage_of(step.outputs[i], variant.outputs[i]));
    }
    emission_.pack_jobs.push_back({static_cast<int>(program().instructions.size()), &step});
    add_kernel(*step.family, variant.problem.data(), std::move(operands), step.node->name,
               step.node->op->name, step.constants);
  }

  void emit_view(const Step& step, const Variant& variant) {
    const int from = storage_of(step.inputs[0], variant.inputs[0]);
    const int to = storage_of(step.outputs[0], variant.outputs[0]);
    const auto element = static_cast<int64_t>(dtype_bytes(graph().value(step.outputs[0]).dtype));
    const int64_t offset = step.view_offset * element;
    const int64_t total = emission_.root_of(from).second + offset;
    if (total % static_cast<int64_t>(kAlignment) == 0) return lie_within(to, from, offset);
    // Kernels may rely on alignment, so an unaligned view becomes a copy.
    add_copy(from, offset, to, 0, storage(to).bytes, step.node->name);
  }

  void emit_join(const Step& step, const Variant& variant) {
    const int to = storage_of(step.outputs[0], variant.outputs[0]);
    int64_t offset = 0;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int from = storage_of(step.inputs[i], variant.inputs[i]);
      const Storage& s = storage(from);
      const int64_t bytes = s.bytes;
      const bool in_place = s.parent < 0 && s.made_by_kernel && s.place == Place::kArena &&
                            offset % static_cast<int64_t>(kAlignment) == 0;
      if (in_place) {
        lie_within(from, to, offset);
      } else {
        add_copy(from, 0, to, offset, bytes, step.node->name);
      }
      offset += bytes;
    }
    storage(to).made_by_kernel = true;
  }

  // The node becomes a graph of its own; its constants stay with it.
  void emit_interpreted(const Step& step) {
    auto node = std::make_shared<InterpretedNode>();
    ir::Graph& own = node->graph;
    own.name = step.node->name;
    Operands operands;
    std::map<ir::ValueId, ir::ValueId> renamed;
    const auto take = [&](ir::ValueId id) {
      if (id == ir::kNone) return ir::kNone;
      const auto [at, fresh] = renamed.try_emplace(id, static_cast<ir::ValueId>(own.values.size()));
      if (fresh) own.values.push_back(graph().value(id));
      return at->second;
    };
    ir::Node copy = *step.node;
    for (ir::ValueId& id : copy.inputs) {
      const ir::ValueId original = id;
      const bool fresh = original != ir::kNone && !renamed.contains(original);
      id = take(original);
      if (!fresh || graph().value(original).is_constant()) continue;
      own.inputs.push_back(id);
      operands.inputs.push_back(storage_of(original, Layout::kPlain));
    }
    for (ir::ValueId& id : copy.outputs) {
      const ir::ValueId original = id;
      id = take(original);
      if (original == ir::kNone) continue;
      own.outputs.push_back(id);
      operands.outputs.push_back(storage_of(original, Layout::kPlain));
    }
    own.nodes.push_back(std::move(copy));
    add_instruction({.interpreted = std::move(node),
                     .node = step.node->name,
                     .op = std::string(step.node->op->name)},
                    std::move(operands),
                    {.problem = "", .selection = {.why = "no kernel; the reference runs"}});
  }

  Emission& emission_;
  const NodeSelector& nodes_;
  const kernels::Target& target_;
  std::map<std::pair<ir::ValueId, Layout>, int> storage_of_;
};

}  // namespace

Emission emit(const Lowered& lowered, const std::vector<PlacedStep>& placed,
              const NodeSelector& nodes, const kernels::Target& target) {
  Emission emission{.lowered = lowered};
  Emitter emitter(emission, nodes, target);
  emitter.describe_faces();
  for (const PlacedStep& step : placed) {
    check_interrupt();
    emitter.emit(step);
  }
  emitter.emit_outputs();
  return emission;
}

}  // namespace stretto::runtime
