// From operators to kernel problems: every node of an optimised graph becomes steps, each with one
// problem per combination of layouts that some kernel can do.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/ir/graph.h"
#include "stretto/ir/operator.h"
#include "stretto/kernels/family.h"

namespace stretto::runtime {

// One way to lay out a step's tensors. `problem` is the family's plain-data problem.
struct Variant {
  std::vector<std::byte> problem;
  std::vector<Layout> inputs, outputs;  // parallel to Step::inputs and Step::outputs
};

enum class StepKind : uint8_t {
  kKernel,  // a problem of a family
  kView,    // output 0 is input 0's memory from `view_offset` bytes on, dense plain or equal layout
  kJoin,    // output 0 is the inputs one behind the other: they are computed in place
  kInterpret,  // no kernel: the operator's reference runs
};

struct Step {
  StepKind kind = StepKind::kKernel;
  const kernels::Family* family = nullptr;
  std::vector<Variant> variants;
  std::vector<ir::ValueId> inputs, outputs;
  std::vector<Tensor> constants;   // for Family::pack
  int64_t view_offset = 0;         // in elements
  const ir::Node* node = nullptr;  // the node this step came from
};

struct LowerOptions {
  // stretto.Append writes into the graph's input. Without it the reference makes a copy, because
  // inputs belong to the caller.
  bool append_in_place = false;
};

// Steps in order. `graph` is a copy of the model's with temporaries added.
struct Lowered {
  std::shared_ptr<ir::Graph> graph;
  std::vector<Step> steps;
};

class Lowering {
 public:
  Lowering(ir::Graph& graph, const kernels::Target& target, const LowerOptions& options,
           std::vector<Step>& steps)
      : graph_(graph), target_(target), options_(options), steps_(steps) {}

  const LowerOptions& options() const { return options_; }
  // Where the result of a stretto.Append that was lowered in place lies; kNone for other values.
  ir::ValueId memory_of(ir::ValueId id) const {
    const auto at = memory_.find(id);
    return at == memory_.end() ? ir::kNone : at->second;
  }
  void set_memory(ir::ValueId id, ir::ValueId memory) { memory_[id] = memory; }

  ir::Graph& graph() { return graph_; }
  const kernels::Target& target() const { return target_; }
  const Shape& shape(ir::ValueId id) const { return *graph_.value(id).shape; }
  const Tensor* constant(ir::ValueId id) const {
    return id != ir::kNone && graph_.value(id).is_constant() ? &graph_.value(id).constant : nullptr;
  }
  bool is_float32(ir::ValueId id) const { return graph_.value(id).dtype == DType::kFloat32; }

  // Adds a kernel step for `node`. Variants that no row fits are dropped; returns false and adds
  // nothing when none is left.
  template <typename P>
  struct Choice {
    P problem;
    std::vector<Layout> inputs, outputs;
  };
  template <typename P>
  bool add(const ir::Node& node, const kernels::Family& family, std::vector<ir::ValueId> inputs,
           std::vector<ir::ValueId> outputs, const std::vector<Choice<P>>& choices,
           std::vector<Tensor> constants = {}) {
    Step step{.family = &family,
              .inputs = std::move(inputs),
              .outputs = std::move(outputs),
              .constants = std::move(constants),
              .node = &node};
    for (const Choice<P>& choice : choices) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&choice.problem);
      step.variants.push_back({{bytes, bytes + sizeof(P)}, choice.inputs, choice.outputs});
    }
    return add(std::move(step));
  }
  bool add(Step step);

  // The output is the input's memory from `offset` elements on; in plain layout always, and for the
  // pairs (layout of input, layout of output) in `also`.
  void add_view(const ir::Node& node, ir::ValueId input, ir::ValueId output, int64_t offset = 0,
                std::vector<std::pair<Layout, Layout>> also = {});
  // The output is the inputs' memory, one behind the other; in blocked layout too if `blocked`.
  void add_join(const ir::Node& node, std::vector<ir::ValueId> inputs, ir::ValueId output,
                bool blocked);

 private:
  ir::Graph& graph_;
  const kernels::Target& target_;
  const LowerOptions& options_;
  std::vector<Step>& steps_;
  std::map<ir::ValueId, ir::ValueId> memory_;
};

// How one operator is lowered; returns false when it cannot (the reference will run instead).
struct LoweringRule {
  std::string_view op;
  bool (*lower)(Lowering&, const ir::Node&);
};
const LoweringRule* find_lowering_rule(std::string_view op);  // null when there is none

// Whether a rank-4 value of this shape lies in memory the same way in both layouts.
bool same_in_both_layouts(const Shape& shape, int block);

// Constants, shapes and types must be known.
Lowered lower(const std::shared_ptr<ir::Graph>& graph, const kernels::Target& target,
              const LowerOptions& options = {});

}  // namespace stretto::runtime
