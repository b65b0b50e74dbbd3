#include "stretto/kernels/recurrent/cpu/plan.h"

#include <algorithm>

#include "stretto/kernels/gemm/candidates.h"

namespace stretto::kernels::recurrent {
namespace {

// Floats in whole cache lines.
int64_t lines(int64_t floats) {
  constexpr int64_t kLine = 16;
  return (floats + kLine - 1) / kLine * kLine;
}

int64_t floats(size_t bytes) { return lines(static_cast<int64_t>(bytes / sizeof(float))); }

// Sums that stay in the first-level cache beside states and weights that stream by.
constexpr int64_t kSums = 16384 / sizeof(float);

// Rows of states a multiple of this apart share one set of the first-level cache.
constexpr int64_t kSetFloats = 4096 / sizeof(float);

}  // namespace

Plan make_plan(const RecurrentProblem& p) {
  const TileSet& set = tile_set(p.target.isa);
  const int gates = p.gates();
  Plan plan{};
  plan.lanes = set.lanes;
  plan.blocks = (p.hidden + plan.lanes - 1) / plan.lanes;
  plan.width = plan.blocks * plan.lanes;
  plan.row = lines(plan.width) + (lines(plan.width) % kSetFloats == 0 ? lines(1) : 0);
  const bool resets_state = p.cell == RecurrentCell::kGru && !p.linear_before_reset;
  plan.parts = resets_state ? 2 : 1;
  plan.part[0] = {.first = 0, .gates = resets_state ? 2 : gates};
  plan.part[1] = {.first = 2, .gates = 1};
  plan.product = {.target = p.target,
                  .m = p.steps * p.batch,
                  .n = p.directions * plan.width * gates,
                  .k = p.inputs,
                  .transposed = 1,
                  .epilogue = {.bias = true}};

  plan.weights = floats(gemm::kPacked.packed_bytes(plan.product));
  plan.sum_rows = p.batch;
  int64_t at = plan.weights;
  for (int i = 0; i < plan.parts; ++i) {
    Part& part = plan.part[i];
    part.panel_blocks = TileSet::kMaxVectors / part.gates;
    part.panels = (plan.blocks + part.panel_blocks - 1) / part.panel_blocks;
    const int64_t panel = part.panel_blocks * part.gates * plan.lanes;
    part.group =
        p.batch == 1 ? part.panels : std::clamp<int64_t>(kSums / (p.batch * panel), 1, part.panels);
    plan.sum_rows = std::min(plan.sum_rows, kSums / panel);
    plan.thread_sums = std::max(plan.thread_sums, plan.sum_rows * part.group * panel);
    part.weights = at;
    part.direction_weights = plan.width * part.gates * p.hidden;
    at += p.directions * part.direction_weights;
  }
  plan.state_bias = at;
  if (p.linear_before_reset) at += p.directions * plan.width * gates;
  plan.peephole = at;
  if (p.peephole) at += p.directions * 3 * plan.width;
  plan.packed_end = at;

  const int64_t states = p.directions * p.batch * plan.row;
  plan.states = lines(plan.product.m * plan.product.n);
  plan.cells = plan.states + 2 * states;
  plan.resets = plan.cells + (p.cell == RecurrentCell::kLstm ? states : 0);
  plan.sums = plan.resets + (resets_state ? states : 0);
  plan.thread_sums = lines(plan.thread_sums);
  plan.scratch_end = plan.sums + p.target.threads * plan.thread_sums;
  return plan;
}

}  // namespace stretto::kernels::recurrent
