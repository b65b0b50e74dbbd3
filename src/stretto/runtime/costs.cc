#include "stretto/runtime/costs.h"

#include <algorithm>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/kernels/simd/grid.h"
#include "stretto/tune/choose.h"

namespace stretto::runtime {
namespace {

// Variants that expect to take longer than this times the step's best are never measured.
constexpr double kPlausible = 2.5;

// Cost of a variant that a forced kernel cannot do: any other variant is better.
constexpr double kImpossibleSeconds = 1e3;

// Factor on estimates where another layout of the same step was measured.
constexpr double kDoubt = 2;

// Cost of an operator that runs as its reference: there is one way to do it, so the order of
// magnitude is enough.
constexpr double kInterpretedSeconds = 1e-3;

// Cost of a reorder that does not exist, because only rank-4 values have a blocked layout.
constexpr double kNoReorderSeconds = 1e6;

double default_estimate(const kernels::Family& family, const void* problem) {
  const int row = kernels::default_row(family, problem);
  return estimate_seconds(family, problem, family.fits(row, problem).expected);
}

// Where another layout of the same step was measured, an estimate counts kDoubt-fold: a layout must
// not win because its estimate is too low.
double kernel_cost(const Step& step, int v, const NodeSelector& nodes) {
  const auto selection = [&](const Variant& variant) {
    return nodes.select(step.node->name, *step.family, variant.problem.data(), step.constants);
  };
  const Selection mine = selection(step.variants[v]);
  const bool other_measured =
      mine.seconds == 0 &&
      std::any_of(step.variants.begin(), step.variants.end(),
                  [&](const Variant& variant) { return selection(variant).seconds > 0; });
  return other_measured ? mine.cost() * kDoubt : mine.cost();
}

}  // namespace

// The fastest kernel of those whose weights are packed already, unless packing them once more pays.
Selection NodeSelector::keep_to_shared(Selection selection, const void* problem,
                                       std::span<const Tensor> constants) const {
  const kernels::Family& family = *selection.family;
  const std::string name = constants_name(constants);
  const auto is_packed = [&](int row, const void* p) {
    return family.packed_bytes(row, p) == 0 ||
           options.shared->has(weights_name(family, row, p, name));
  };
  if (is_packed(selection.row, problem)) return selection;
  const double fastest = family.fits(selection.row, problem).expected;
  int best = -1, best_width = 0;
  double expected = fastest / options.worth_packing;
  const auto try_rows = [&](const void* p, int width) {
    for (int row = 0; row < family.rows; ++row) {
      if (row == family.reference) continue;
      const kernels::Fit fit = family.fits(row, p);
      if (!fit.ok || fit.expected <= expected || !is_packed(row, p)) continue;
      best = row;
      best_width = width;
      expected = fit.expected;
    }
  };
  try_rows(problem, 0);
  const auto* bytes = static_cast<const std::byte*>(problem);
  std::vector<std::byte> other(bytes, bytes + family.problem_bytes);
  for (const int64_t width : kernels::kPanelWidths) {
    kernels::set_panel_width(family, other.data(), static_cast<int>(width));
    try_rows(other.data(), static_cast<int>(width));
  }
  if (best < 0) {  // another layout may have one
    selection.seconds *= options.worth_packing;
    selection.estimate *= options.worth_packing;
    return selection;
  }
  return {.family = &family,
          .row = best,
          .panel_width = best_width,
          .estimate = estimate_seconds(family, problem, expected),
          .why = "its weights are packed for other shapes"};
}

Selection NodeSelector::select(const std::string& node, const kernels::Family& family,
                               const void* problem, std::span<const Tensor> constants) const {
  const auto forced = options.forced_nodes.find(node);
  if (forced == options.forced_nodes.end()) {
    if (options.worth_packing == 0 || constants.empty()) return selector.select(family, problem);
    const auto known = kept_.find(problem);
    if (known != kept_.end()) return known->second;
    return kept_[problem] = keep_to_shared(selector.select(family, problem), problem, constants);
  }
  const int row = kernels::find_row(family, forced->second);
  if (row < 0) {
    throw_invalid("{}: {} has no kernel '{}'", node, family.name, forced->second);
  }
  const kernels::Fit fit = family.fits(row, problem);
  Selection s{.family = &family, .row = row, .estimate = kImpossibleSeconds, .why = "forced"};
  if (fit.ok) s.estimate = estimate_seconds(family, problem, fit.expected);
  return s;
}

void measure_variants(const Lowered& lowered, const NodeSelector& nodes) {
  if (!nodes.selector.measures()) return;
  std::vector<Selector::Request> requests;
  for (const Step& step : lowered.steps) {
    if (step.kind != StepKind::kKernel) continue;
    std::vector<double> estimates;
    for (const Variant& v : step.variants) {
      estimates.push_back(default_estimate(*step.family, v.problem.data()));
    }
    const double least = *std::min_element(estimates.begin(), estimates.end());
    for (const int v : tune::shortlist(estimates, kPlausible)) {
      requests.push_back(
          {step.family, step.variants[v].problem.data(), tune::closeness(estimates[v] / least)});
    }
  }
  nodes.selector.measure(requests, nodes.options.progress);
}

Costs selected_costs(const Lowered& lowered, const NodeSelector& nodes,
                     const kernels::Target& target) {
  return {.step =
              [&nodes](const Step& step, int v) {
                switch (step.kind) {
                  case StepKind::kKernel:
                    return kernel_cost(step, v, nodes);
                  case StepKind::kInterpret:
                    return kInterpretedSeconds;
                  case StepKind::kView:
                  case StepKind::kJoin:
                    break;
                }
                return 0.0;
              },
          .reorder =
              [&](ir::ValueId id, Layout from, Layout to) {
                const Shape& shape = *lowered.graph->value(id).shape;
                if (shape.size() != 4) return kNoReorderSeconds;
                if (same_in_both_layouts(shape, target.block())) return 0.0;
                const kernels::ReorderProblem p = reorder_problem(shape, from, to, target);
                return nodes.selector.select(kernels::kReorder, &p).cost();
              }};
}

kernels::ReorderProblem reorder_problem(const Shape& shape, Layout from, Layout to,
                                        const kernels::Target& target) {
  kernels::ReorderProblem p{};
  p.target = target;
  p.n = shape[0];
  p.c = shape[1];
  p.h = shape[2];
  p.w = shape[3];
  p.from = from;
  p.to = to;
  return p;
}

}  // namespace stretto::runtime
