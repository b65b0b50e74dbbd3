#include "stretto/comm/simulate/tune_steps.h"

#include <limits>
#include <utility>

#include "stretto/comm/collective/unit_size.h"

namespace stretto::comm {
namespace {

constexpr int64_t kChunkBytes = 256 << 10;  // Options::chunk_bytes
constexpr double kHopeless = 2.2;           // as in engine/tuning.cc
constexpr int kMostSteps = 2000;

}  // namespace

TuningRun simulate_tuning(const Placement& placement, int64_t step_bytes, const StepSetting& start,
                          const OperationOptions& options) {
  Problem problem{.host = placement, .count = step_bytes / 4};
  const auto set_unit = [&](int64_t bytes) { problem.unit = bytes / 4; };
  set_unit(default_unit_bytes(problem, kChunkBytes, step_bytes));
  const ElementBytes sizes{};
  const auto estimate = [&](const Algorithm& a) {
    return estimate_s(a.cost(problem), options.link, sizes);
  };
  const double best = estimate(choose_algorithm(problem, options.link, sizes));
  StepTunerOptions choices{.unit_bytes = unit_sizes_to_try(problem, kChunkBytes), .streams = {}};
  for (const Algorithm& a : algorithms(Collective::kAllReduce))
    if (a.unfit(problem).empty() && estimate(a) <= kHopeless * best)
      choices.algorithms.emplace_back(a.name);

  std::map<std::pair<std::string, int64_t>, double> known;
  const auto step_s = [&](const StepSetting& setting) {
    const auto [found, fresh] = known.try_emplace({setting.algorithm, setting.unit_bytes});
    if (fresh) {
      set_unit(setting.unit_bytes);
      const Algorithm& algorithm = setting.algorithm.empty()
                                       ? choose_algorithm(problem, options.link, sizes)
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
