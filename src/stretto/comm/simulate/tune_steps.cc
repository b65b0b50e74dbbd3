#include "stretto/comm/simulate/tune_steps.h"

#include <limits>
#include <utility>

#include "stretto/comm/collective/unit_size.h"
#include "stretto/comm/options.h"

namespace stretto::comm {
namespace {

constexpr int kMostSteps = 2000;

}  // namespace

TuningRun simulate_tuning(const Placement& placement, int64_t step_bytes, const StepSetting& start,
                          const OperationOptions& options) {
  Problem problem{.host = placement, .count = step_bytes / 4};
  const int64_t chunk_bytes = Options().chunk_bytes;
  set_unit(&problem, 4, chunk_bytes, {});
  const StepTunerOptions choices{.unit_bytes = unit_sizes_to_try(problem, chunk_bytes),
                                 .streams = {},
                                 .algorithms = algorithms_to_try(problem, options.link)};

  std::map<std::pair<std::string, int64_t>, double> known;
  const auto step_s = [&](const StepSetting& setting) {
    const auto [found, fresh] = known.try_emplace({setting.algorithm, setting.unit_bytes});
    if (fresh) {
      set_unit(&problem, 4, chunk_bytes, {}, setting.unit_bytes);
      const Algorithm& algorithm = setting.algorithm.empty()
                                       ? choose_algorithm(problem, options.link, {})
                                       : find_algorithm(problem, setting.algorithm);
      found->second = simulate_operation(problem, algorithm, options).seconds;
    }
    return found->second;
  };

  TuningRun run{.start = start, .start_s = step_s(start)};
  StepTuner tuner(choices, start);
  for (; !tuner.settled() && run.steps < kMostSteps; ++run.steps)
    tuner.step(step_s(tuner.current()));
  run.tried = tuner.history();
  run.best = tuner.best();
  run.best_s = step_s(run.best);
  run.fastest_s = std::numeric_limits<double>::infinity();
  for (const std::string& algorithm : choices.algorithms)
    for (const int64_t bytes : choices.unit_bytes) {
      const StepSetting setting{
          .unit_bytes = bytes, .streams = start.streams, .algorithm = algorithm};
      const double seconds = step_s(setting);
      if (seconds >= run.fastest_s) continue;
      run.fastest_s = seconds;
      run.fastest = setting;
    }
  return run;
}

}  // namespace stretto::comm
