// Plays the tuning of training steps (tuning/tuning.h): the StepTuner of the engine, with step
// times from the virtual network.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stretto/comm/simulate/operation.h"
#include "stretto/comm/tuning/tuning.h"

namespace stretto::comm {

struct TuningRun {
  std::vector<StepTuner::Tried> tried;  // in order
  int steps = 0;                        // until nothing is left to try
  StepSetting start, best;
  double start_s = 0, best_s = 0;
  // All settings, to compare with: the best that the tuner could have found.
  StepSetting fastest;
  double fastest_s = 0;
};

// A step is one all-reduce of `step_bytes` of float32. The tuner begins with `start`, and tries the
// algorithms that the engine would let it try and the units of unit_sizes_to_try (unit_size.h).
TuningRun simulate_tuning(const Placement& placement, int64_t step_bytes, const StepSetting& start,
                          const OperationOptions& options);

}  // namespace stretto::comm
