// Chooses a layout for every value by dynamic programming over the costs of kernels and reorders.
#pragma once

#include <functional>
#include <vector>

#include "stretto/runtime/lowering/lowering.h"

namespace stretto::runtime {

// A step with its variant decided. A reorder's variant comes from the reorder family.
struct PlacedStep {
  const Step* step = nullptr;  // null: a reorder of `value`
  int variant = 0;
  ir::ValueId value = ir::kNone;  // of a reorder
  Layout from = Layout::kPlain, to = Layout::kPlain;
};

// Seconds of the best kernel for variant `v` of a step, and of a reorder of a value.
struct Costs {
  std::function<double(const Step& step, int v)> step;
  std::function<double(ir::ValueId value, Layout from, Layout to)> reorder;
};

// Order and layouts with the least total cost. Exact as long as fewer than `beam` combinations of
// layouts of live values exist at any point, which holds for all but very wide graphs; beyond that
// the cheapest `beam` survive. Graph inputs and outputs are plain; constants exist in every layout.
std::vector<PlacedStep> choose_layouts(const Lowered& lowered, const Costs& costs, int beam = 256);

}  // namespace stretto::runtime
