#include "stretto/runtime/tuning.h"

#include <algorithm>

#include "stretto/tune/cache_file.h"

namespace stretto::runtime {
namespace {

// Never measures: `budget_s` is for the caller to set.
SelectOptions select_options(const TuningOptions& how, tune::TuningCache known) {
  // The shipped tuning cache was measured on another machine, so it is used only for problems that
  // are not measured here.
  return {.thorough = how.thorough,
          .forced = how.forced,
          .known = std::move(known),
          .advice = tune::TuningCache::shipped()};
}

std::string plan_of(const std::shared_ptr<ir::Graph>& graph, const kernels::Target& target,
                    const TuningOptions& how, const tune::TuningCache& known) {
  Selector selector(select_options(how, known));
  return plan(graph, target, selector, {.forced_nodes = how.forced_nodes});
}

// The verdict that spares this run its measurements.
std::optional<Verdict> remembered(const std::shared_ptr<ir::Graph>& graph,
                                  const kernels::Target& target, const TuningOptions& how,
                                  const tune::TuningCache& known) {
  if (!has_verdicts(known)) return std::nullopt;
  auto verdict = find_verdict(known, plan_of(graph, target, how, {}),
                              plan_of(graph, target, how, known), target);
  if (verdict && verdict->budget_s < how.budget_s) return std::nullopt;
  return verdict;
}

// The choices that the other one does not make too.
tune::TuningCache without_same(tune::TuningCache choices, const tune::TuningCache& other) {
  choices.forget(other);
  return choices;
}

// The program that nothing was measured for. Most weights are packed as those of `tuned`, and are
// not copied for a comparison.
Compiled compile_beside(const Program& tuned, const std::shared_ptr<ir::Graph>& graph,
                        Selector& selector, const TuningOptions& how) {
  const auto packed = [&](const std::string& key, const std::string& form) {
    const auto found = std::find_if(tuned.blobs.begin(), tuned.blobs.end(), [&](const Blob& blob) {
      return blob.key == key && blob.form == form;
    });
    return found == tuned.blobs.end() ? Blob{} : *found;
  };
  return compile(graph, tuned.target, selector,
                 {.forced_nodes = how.forced_nodes, .packed = packed});
}

}  // namespace

bool Tuned::open(const TuningOptions& how) const {
  const SelectCounts counts = selector->counts();
  return how.budget_s > 0 && !remembered && counts.measured + counts.known > 0;
}

Tuned choose_kernels(const std::shared_ptr<ir::Graph>& graph, const kernels::Target& target,
                     const TuningOptions& how) {
  Tuned tuned{.known = tune::load_tuning_cache(how.cache)};
  tuned.verdict = remembered(graph, target, how, tuned.known);
  tuned.remembered = tuned.verdict.has_value();
  const bool by_default = tuned.verdict && tuned.verdict->default_kept;
  SelectOptions select = select_options(how, by_default ? tune::TuningCache() : tuned.known);
  if (!tuned.remembered) select.budget_s = how.budget_s;
  tuned.selector = std::make_unique<Selector>(std::move(select));
  tuned.compiled =
      compile(graph, target, *tuned.selector,
              {.progress = how.progress, .forced_nodes = how.forced_nodes, .shared = how.shared});
  // Saved before the comparison, so that one that is interrupted loses nothing.
  tune::add_to_tuning_cache(how.cache, tuned.selector->found());
  tuned.known.merge(tuned.selector->found());
  return tuned;
}

void compare_with_default(Tuned& tuned, const std::shared_ptr<ir::Graph>& graph,
                          const TuningOptions& how, const std::vector<Tensor>& inputs) {
  const kernels::Target target = tuned.compiled.program.target;
  const std::string default_plan = plan_of(graph, target, how, {});
  std::string tuned_plan = plan_of(graph, target, how, tuned.known);
  Verdict verdict{.budget_s = how.budget_s};
  if (tuned_plan != default_plan) {
    auto selector = std::make_unique<Selector>(select_options(how, {}));
    const Compiled plain = compile_beside(tuned.compiled.program, graph, *selector, how);
    verdict.contest =
        compare_programs(tuned.compiled.program, plain.program, inputs, how.compare_s);
    verdict.default_kept = !first_wins(verdict.contest);
    if (verdict.default_kept) {
      const tune::TuningCache lost = without_same(tuned.selector->found(), selector->used());
      tune::forget_in_tuning_cache(how.cache, lost);
      tuned.known.forget(lost);
      tuned_plan = plan_of(graph, target, how, tuned.known);
      if (how.shared != nullptr) how.shared->clear();
      tuned.compiled = compile(graph, target, *selector,
                               {.forced_nodes = how.forced_nodes, .shared = how.shared});
      tuned.selector = std::move(selector);
    }
  }
  tune::add_to_tuning_cache(how.cache, verdict_entry(verdict, default_plan, tuned_plan, target));
  tuned.verdict = std::move(verdict);
}

}  // namespace stretto::runtime
